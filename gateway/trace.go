package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"opsgate/internal/uuid"
)

// A Tracer starts the traces of requests.
type Tracer interface {
	// Start starts the trace of a request. The route is the template of its path, "" if no route
	// matches. The returned context is used for the request's calls. The Trace is nil if the
	// request is not traced.
	Start(ctx context.Context, req *http.Request, route string) (context.Context, Trace)
}

// A Trace records one request. It never gets a header, query, body or token.
type Trace interface {
	// IDs returns the ids of the trace and of the request's span, in hex.
	IDs() (traceID, spanID string)
	// StartSpan starts a span within the request. The returned function ends the span; failure is
	// the code of the error for a 5xx, else "".
	StartSpan(ctx context.Context, name string) (context.Context, func(failure string))
	// End ends the request's span. The status is 0 if no response was sent; failure is as for
	// StartSpan.
	End(status int, failure string, attributes ...slog.Attr)
}

// Attributes of the request's span. Names without the prefix opsgate are OpenTelemetry's. The
// Tracer sets the other attributes.
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
	attrShadowDenied = "opsgate." + shadowDeniedKey
	attrLocal        = "opsgate.limits_local"
	attrCached       = "opsgate.limits_cached"
)

// beginTrace starts the trace of the request, and returns the context for its calls.
func (g *Gateway) beginTrace(ctx context.Context, r *Request) context.Context {
	if g.options.Tracer == nil {
		return ctx
	}
	ctx, r.trace = g.options.Tracer.Start(ctx, r.http(), r.route.template)
	return ctx
}

// runStage runs a stage, in a span if the request and the stage are traced.
func (r *Request) runStage(s *stage) error {
	if r.trace == nil || !s.traced {
		return s.check(r.gateway, r)
	}
	outer := r.ctx
	inner, end := r.trace.StartSpan(outer, s.name)
	r.ctx = inner
	failure := codeInternal // if the stage panics
	defer func() {
		r.ctx = outer
		end(failure)
	}()
	err := s.check(r.gateway, r)
	failure = r.stageFailure(err)
	return err
}

// stageFailure returns the code of a stage's error for a 5xx, else "".
func (r *Request) stageFailure(err error) string {
	if err == nil {
		return ""
	}
	p := problemOf(err, &r.route.Route, r.clientGone())
	return serverErrorCode(outcome{status: p.Status, code: p.Code})
}

func serverErrorCode(o outcome) string {
	if o.status >= http.StatusInternalServerError {
		return o.code
	}
	return ""
}

func (r *Request) endTrace(resp preparedResponse) {
	if r.trace == nil {
		return
	}
	attributes := append(make([]slog.Attr, 0, 11),
		slog.String(attrClient, r.ClientAddr().String()),
		slog.String(attrRoute, r.route.ID),
		slog.String(attrCode, resp.code),
	)
	if resp.cause != "" {
		attributes = append(attributes, slog.String(attrCause, string(resp.cause)))
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
	if r.limitSet != nil {
		attributes = append(attributes, r.decisionAttributes()...)
	}
	status := resp.status
	if status == statusClientClosed {
		status = 0
	}
	r.trace.End(status, serverErrorCode(resp.outcome), attributes...)
}

func (r *Request) decisionAttributes() []slog.Attr {
	attributes := []slog.Attr{
		slog.String(attrClass, r.limitSet.assignment.Class),
		slog.Bool(attrLocal, r.decision.Local),
		slog.Bool(attrCached, r.decision.Cached),
	}
	if !r.decision.Allowed {
		attributes = append(attributes, slog.String(attrDeniedBy, r.limitSet.limits[r.decision.DeniedBy].Name))
	} else if limit := r.shadowDeniedBy(); limit != "" {
		attributes = append(attributes, slog.String(attrShadowDenied, limit))
	}
	return attributes
}

// safePath returns the path of the request, and reports whether it matches a route exactly. Any
// other path may contain anything, even a token.
func (r *Request) safePath() (string, bool) {
	path := r.http().URL.Path
	if r.route.Path == path {
		return path, true
	}
	// The only parameter must be a UUID, and no escape may hide other text.
	_, isID := uuid.Canonical(r.gin.Param("id"))
	return path, isID && len(r.gin.Params) == 1 && r.http().URL.RawPath == ""
}

// pathTemplate returns the path of a row as in OpenAPI and OpenTelemetry: /v1/servers/{id}.
func pathTemplate(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, ":") || strings.HasPrefix(s, "*") {
			segments[i] = "{" + s[1:] + "}"
		}
	}
	return strings.Join(segments, "/")
}
