package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"opsgate/authn"
)

// A Tracer decides which requests are recorded in a trace.
type Tracer interface {
	// Trace begins what is recorded of a request. The route is the template of its path, "" for a path that is none. The context
	// is what the request's calls are made with; the Trace is nil for a request that is not recorded.
	Trace(ctx context.Context, req *http.Request, route string) (context.Context, Trace)
}

// A Trace is what is recorded of one request. What it is told must be fit for anybody's eyes: no header, query, body or token.
type Trace interface {
	// IDs returns the ids of the trace and of the request in it, in hex.
	IDs() (traceID, spanID string)
	// Step begins a part of the request. It is to be ended, with the code of the error where it failed because of us, else "".
	Step(ctx context.Context, name string) (context.Context, func(failure string))
	// End ends the request, likewise. The status is 0 where nothing was sent.
	End(status int, failure string, attributes ...slog.Attr)
}

// Attributes of a recorded request. Those without our name are of OpenTelemetry's conventions, of which the Tracer knows the rest.
const (
	attrClient       = "client.address"
	attrPath         = "url.path"
	attrRoute        = "opsgate.route"
	attrCode         = "opsgate.code"
	attrCause        = "opsgate.cause"
	attrTeam         = "opsgate.team_id"
	attrToken        = "opsgate.token_id"
	attrClass        = "opsgate.limits"
	attrDeniedBy     = "opsgate.denied_by"
	attrShadowDenied = "opsgate." + shadowDenied
	attrLocal        = "opsgate.limits_local"
	attrCached       = "opsgate.limits_cached"
)

// beginTrace begins to record the request, if it is to be recorded, and returns the context that it goes on with.
func (g *Gateway) beginTrace(ctx context.Context, r *Request) context.Context {
	if g.tracer == nil {
		return ctx
	}
	ctx, r.trace = g.tracer.Trace(ctx, r.http(), r.route.template)
	return ctx
}

// pass has a stage look at the request. One that may have to wait is a step of a recorded request.
func (r *Request) pass(s *stage) error {
	if r.trace == nil || !s.waits {
		return s.check(r.gateway, r)
	}
	outer := r.ctx
	inner, end := r.trace.Step(outer, s.name)
	r.ctx = inner
	failure := codeInternal // unless the stage returns
	defer func() {
		r.ctx = outer
		end(failure)
	}()
	err := s.check(r.gateway, r)
	failure = r.failure(err)
	return err
}

// failure returns the code of an error that is a fault of ours, or "".
func (r *Request) failure(err error) string {
	if err == nil {
		return ""
	}
	p := problemOf(err, &r.route.Route, r.clientGone())
	return failureOf(outcome{status: p.Status, code: p.Code})
}

func failureOf(how outcome) string {
	if how.status >= http.StatusInternalServerError {
		return how.code
	}
	return ""
}

// endTrace ends what is recorded of the request.
func (r *Request) endTrace(s sent) {
	if r.trace == nil {
		return
	}
	attributes := append(make([]slog.Attr, 0, 11),
		slog.String(attrClient, r.ClientAddr().String()),
		slog.String(attrRoute, r.route.ID),
		slog.String(attrCode, s.code),
	)
	if s.cause != "" {
		attributes = append(attributes, slog.String(attrCause, string(s.cause)))
	}
	if path, ok := r.safePath(); ok {
		attributes = append(attributes, slog.String(attrPath, path))
	}
	teamID, tokenID := r.caller()
	if teamID != "" {
		attributes = append(attributes, slog.String(attrTeam, teamID))
	}
	if tokenID != "" {
		attributes = append(attributes, slog.String(attrToken, tokenID))
	}
	if r.terms != nil {
		attributes = append(attributes, r.decisionAttributes()...)
	}
	status := s.status
	if status == statusClientClosed {
		status = 0
	}
	r.trace.End(status, failureOf(s.outcome), attributes...)
}

// decisionAttributes say who decided on the request's budget, and how.
func (r *Request) decisionAttributes() []slog.Attr {
	attributes := []slog.Attr{
		slog.String(attrClass, r.terms.assignment.Class),
		slog.Bool(attrLocal, r.decision.Local),
		slog.Bool(attrCached, r.decision.Cached),
	}
	if !r.decision.Allowed {
		attributes = append(attributes, slog.String(attrDeniedBy, r.terms.limits[r.decision.Denied].Name))
	} else if limit := r.shadowDenied(); limit != "" {
		attributes = append(attributes, slog.String(attrShadowDenied, limit))
	}
	return attributes
}

// safePath returns the path as it was sent, where it is one of ours through and through: in any other, a client may have put
// anything, its token too.
func (r *Request) safePath() (string, bool) {
	path := r.http().URL.Path
	if r.route.Path == path {
		return path, true
	}
	_, isID := authn.CanonicalUUID(r.gin.Param("id"))
	return path, isID && len(r.gin.Params) == 1 && r.http().URL.RawPath == ""
}

// pathTemplate writes the path of a row as OpenAPI and OpenTelemetry do: /v1/servers/{id}.
func pathTemplate(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, ":") || strings.HasPrefix(s, "*") {
			segments[i] = "{" + s[1:] + "}"
		}
	}
	return strings.Join(segments, "/")
}
