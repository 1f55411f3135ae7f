package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	"opsgate/ratelimit"
)

// A codeRow is the response for a code of a service.
type codeRow struct {
	code   codes.Code
	status int
	name   string
}

// of returns the response of an operation: only a path with an id can be of a resource that does
// not exist.
func (c codeRow) of(r Route) (status int, name string) {
	if c.status == http.StatusNotFound && !strings.Contains(r.Path, ":id") {
		return http.StatusInternalServerError, "internal_error"
	}
	return c.status, c.name
}

// everyCode maps each code of a service to the response (docs/integrate/contract.md, "Errors").
var everyCode = []codeRow{
	{codes.Canceled, 500, "internal_error"}, // not caused by the client
	{codes.Unknown, 500, "internal_error"},
	{codes.InvalidArgument, 422, "validation_error"},
	{codes.DeadlineExceeded, 504, "timeout"},
	{codes.NotFound, 404, "not_found"},
	{codes.AlreadyExists, 409, "conflict"},
	{codes.PermissionDenied, 404, "not_found"},
	{codes.ResourceExhausted, 429, "rate_limited"},
	{codes.FailedPrecondition, 422, "validation_error"},
	{codes.Aborted, 409, "conflict"},
	{codes.OutOfRange, 422, "validation_error"},
	{codes.Unimplemented, 501, "not_implemented"},
	{codes.Internal, 500, "internal_error"},
	{codes.Unavailable, 503, "unavailable"},
	{codes.DataLoss, 500, "internal_error"},
	{codes.Unauthenticated, 500, "internal_error"},
	{codes.Code(99), 500, "internal_error"}, // not a code of gRPC
}

// rowOf returns the route of an operation.
func rowOf(id string) *boundRoute {
	rows := new(api).routes()
	return &boundRoute{Route: rows[slices.IndexFunc(rows, func(r Route) bool { return r.ID == id })]}
}

// target fills the template of a route.
func target(r Route) string { return strings.ReplaceAll(r.Path, ":id", someID) }

// operations returns the operations of the OpenAPI document by their ids.
var operations = sync.OnceValue(func() map[string]openapitest.Operation {
	all := make(map[string]openapitest.Operation)
	for _, o := range openapitest.Operations() {
		all[o.ID] = o
	}
	return all
})

// validBody returns a body that the route accepts: an example of the OpenAPI document.
func validBody(r Route) string { return operations()[r.ID].Body }

// validQuery returns a query with all parameters of the route, from "?" on.
func validQuery(r Route) string { return "?" + strings.Join(operations()[r.ID].Query, "&") }

// refusal returns a service's error with a violation of each field.
func refusal(t *testing.T, code codes.Code, text string, fields ...string) error {
	t.Helper()
	violations := &errdetails.BadRequest{}
	for _, field := range fields {
		violations.FieldViolations = append(violations.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: field, Description: "is wrong"})
	}
	st, err := status.New(code, text).WithDetails(violations)
	testkit.Must(t, err)
	return st.Err()
}

func withDetails(t *testing.T, code codes.Code, details ...protoadapt.MessageV1) error {
	t.Helper()
	st, err := status.New(code, "internal words").WithDetails(details...)
	testkit.Must(t, err)
	return st.Err()
}

func TestConflictNamesTheKeyOnlyIfTheRequestHasOne(t *testing.T) {
	h := start(t)
	h.services.fail("", status.Error(codes.Aborted, ""))
	for _, test := range []struct {
		method, path, body string
		headers            []string
		namesKey           bool
	}{
		{"GET", "/v1/servers", "", nil, false},
		{"POST", "/v1/incidents", validBody(rowOf("v1CreateIncident").Route), nil, false},
		{"POST", "/v1/incidents", validBody(rowOf("v1CreateIncident").Route), []string{"Idempotency-Key: k"}, true},
	} {
		got := h.do(t, "full", test.method, test.path, test.body, test.headers...)
		got.mustFail(t, 409, "conflict")
		if strings.Contains(got.body, "Idempotency-Key") != test.namesKey {
			t.Errorf("%s with %v: %s", test.method, test.headers, got.body)
		}
	}
}

func TestThrottlingServiceIs429WithItsRetryAfter(t *testing.T) {
	h := start(t)
	h.services.fail("ListServers", withDetails(t, codes.ResourceExhausted, &errdetails.RetryInfo{RetryDelay: durationpb.New(6500 * time.Millisecond)}))
	got := h.get(t, "/v1/servers")
	got.mustFail(t, 429, "rate_limited")
	if after := got.Header.Get("Retry-After"); after != "7" {
		t.Errorf("Retry-After = %q, want 7: rounded up", after)
	}
	if !strings.Contains(got.body, "service behind") {
		t.Errorf("%s does not name the service as the cause", got.body)
	}
}

func TestRouteTimeoutOverridesTheDefault(t *testing.T) {
	h := start(t, func(o *Options) { o.Timeouts = map[string]time.Duration{"v1ListServers": time.Minute} })
	var left time.Duration
	h.services.on("ListServers", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return &fleetv1.ListServersResponse{}, nil
	})
	h.get(t, "/v1/servers").mustBe(t, 200)
	if left < 30*time.Second {
		t.Errorf("the service has %v, want a minute", left)
	}
}

// A busy machine may delay the end of a call, but not each.
func TestClientDisconnectIsNotAFailure(t *testing.T) {
	const bound, attempts = 100 * time.Millisecond, 5
	var took time.Duration
	for range attempts {
		if took = disconnect(t); took < bound {
			break
		}
	}
	t.Logf("the call of the service ended after %v", took)
	if took > bound {
		t.Errorf("at most %v", bound)
	}
}

// disconnect returns the time from the disconnect of a client until the call of the service is
// canceled.
func disconnect(t *testing.T) time.Duration {
	t.Helper()
	h := start(t)
	called, ended := make(chan struct{}), make(chan struct{})
	h.services.on("ListServers", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		close(called)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	ctx, disconnect := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", h.URL+"/v1/servers", nil)
	req.Header.Set("Authorization", "Bearer full")
	at := make(chan time.Time, 1)
	go func() {
		<-called
		at <- time.Now()
		disconnect()
	}()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("the request got a response")
	}
	<-ended
	took := time.Since(<-at)
	h.Server.Close()
	if log := h.log.String(); !strings.Contains(log, `"status":499`) {
		t.Errorf("log = %s", log)
	}
	return took
}

// disconnectLimiter returns the error that a remote limiter returns after the client has
// disconnected.
type disconnectLimiter struct{ asked chan struct{} }

func (l disconnectLimiter) Decide(ctx context.Context, _ string, _ *ratelimit.Policy) (ratelimit.Decision, error) {
	close(l.asked)
	<-ctx.Done()
	return ratelimit.Decision{}, &ratelimit.UnavailableError{Cause: ctx.Err()}
}

func (disconnectLimiter) Refund(context.Context, string, ratelimit.Decision) error {
	return nil
}

func TestClientDisconnectDuringDecisionIsNotAFailure(t *testing.T) {
	limiter := disconnectLimiter{make(chan struct{})}
	h := start(t, func(o *Options) { o.Limiter = limiter })
	conn := h.connect(t)
	if _, err := io.WriteString(conn, "GET /v1/me HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer full\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-limiter.asked
	_ = conn.Close()
	h.Server.Close()
	mustCount(t, h, "opsgate_http_requests_total", map[string]float64{"client-gone client_closed_request v1Me 499": 1})
}

func TestPanicIsAnInternalError(t *testing.T) {
	h := start(t, func(o *Options) {
		o.LoadLimit.SetLimit(1)
		o.Authenticator = nilAuthenticator{}
	})
	for range 2 { // the first one releases its slot
		h.get(t, "/v1/me").mustFail(t, 500, "internal_error")
	}
	if log := h.log.String(); !strings.Contains(log, "panic: ") || !strings.Contains(log, "pipeline.go") {
		t.Error("the log does not have the panic and its stack")
	}
}

// For net/http, a client that closes only its sending side has disconnected. It must not get a
// success for a canceled request.
func TestHalfClosedRequestGetsNoSuccess(t *testing.T) {
	h := start(t)
	h.services.on("CreateIncident", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	conn := h.connect(t)
	_, err := io.WriteString(conn, post(newIncident, len(newIncident)))
	testkit.Must(t, err)
	testkit.Must(t, conn.(*net.TCPConn).CloseWrite())
	if answer, _ := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("the client reads %q", answer)
	}
}
