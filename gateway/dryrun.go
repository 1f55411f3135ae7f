package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	"opsgate/authn"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
	"opsgate/ratelimit"
)

// newDryGateway returns a copy of the gateway for a dry run. Its authenticator and limiter return
// the results in q, its clients call no service, and its stages change neither the metrics nor the
// load limit of g.
func (g *Gateway) newDryGateway(q *ExplainRequest) (*Gateway, error) {
	a, o := q.Assignment, g.options
	if a == nil {
		p := cmp.Or(q.Principal, &authn.Principal{})
		a = o.Policies.For(p.TeamID, p.TokenID, p.LimitClass)
	}
	policies, err := ratelimit.NewPolicies(ratelimit.Assignment{Policy: a.Policy}) // the default of all tokens
	if err != nil {
		return nil, internal(err)
	}
	o.Authenticator, o.Limiter, o.Policies = dryAuthenticator{q}, dryLimiter{q}, policies
	o.Metrics, o.LoadLimit, o.Logger = newMetrics(), o.LoadLimit.snapshot(), slog.New(slog.DiscardHandler)
	o.RetrySpread, o.Decisions, o.Tracer = nil, nil, nil
	var conn dryConn
	handlers := &api{
		fleet:      fleetv1.NewFleetServiceClient(conn),
		monitoring: monitoringv1.NewMonitoringServiceClient(conn),
		incident:   incidentv1.NewIncidentServiceClient(conn),
		audit:      auditv1.NewAuditServiceClient(conn),
	}
	return &Gateway{
		options: o, rows: handlers.routes(), documentation: g.documentation,
		limitSets: newLimitSets(policies, o.Metrics), overloaded: g.overloaded,
	}, nil
}

// A notCalledError is returned in a dry run instead of calling a service.
type notCalledError struct{ method string }

// Error returns the method.
func (e *notCalledError) Error() string { return e.method }

// An unknownResultError is returned in a dry run for a result that the ExplainRequest does not
// contain.
type unknownResultError struct{ detail string }

// Error returns the detail.
func (e *unknownResultError) Error() string { return e.detail }

type dryAuthenticator struct{ q *ExplainRequest }

// Authenticate implements [Authenticator].
func (a dryAuthenticator) Authenticate(context.Context, string, authn.Source) (*authn.Principal, error) {
	switch {
	case a.q.Refused != nil:
		return nil, a.q.Refused
	case a.q.Principal == nil:
		return nil, &unknownResultError{"the token's team is not known"}
	}
	return a.q.Principal, nil
}

type dryLimiter struct{ q *ExplainRequest }

// Decide implements [Limiter].
func (l dryLimiter) Decide(context.Context, string, *ratelimit.Policy) (ratelimit.Decision, error) {
	switch {
	case l.q.LimiterErr != nil:
		return ratelimit.Decision{}, l.q.LimiterErr
	case l.q.Decision == nil:
		return ratelimit.Decision{}, &unknownResultError{"the remaining requests are not known"}
	}
	return *l.q.Decision, nil
}

// Refund implements [Limiter]. A dry run has nothing to refund.
func (dryLimiter) Refund(context.Context, string, ratelimit.Decision) error {
	return nil
}

// A dryConn returns a notCalledError instead of calling a method.
type dryConn struct{}

// Invoke implements [grpc.ClientConnInterface].
func (dryConn) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	return &notCalledError{strings.TrimPrefix(method, "/")}
}

// NewStream implements [grpc.ClientConnInterface].
func (dryConn) NewStream(
	_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return nil, &notCalledError{strings.TrimPrefix(method, "/")}
}

// errUnknownBody is returned by reads of the body in a dry run.
var errUnknownBody = &unknownResultError{"the body is not known"}

type unknownBody struct{}

// Read implements [io.Reader].
func (unknownBody) Read([]byte) (int, error) { return 0, errUnknownBody }

// A discardWriter discards the response. Gin sets the Allow header in it.
type discardWriter struct{ header http.Header }

// Header implements [http.ResponseWriter].
func (w discardWriter) Header() http.Header { return w.header }

// Write implements [http.ResponseWriter].
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements [http.ResponseWriter].
func (discardWriter) WriteHeader(int) {}
