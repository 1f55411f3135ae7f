package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// everyCode is the table of limits and failures: what a client sees of each code that a service can answer.
var everyCode = []struct {
	code   codes.Code
	status int
	name   string
}{
	{codes.Canceled, 500, "internal_error"}, // not by the client
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
	{codes.Code(99), 500, "internal_error"}, // none of gRPC's
}

// target fills the template of a route.
func target(r Route) string { return strings.ReplaceAll(r.Path, ":id", someID) }

// validBody is a body that the route accepts.
func validBody(r Route) string {
	switch r.ID {
	case "v1CreateIncident":
		return `{"title":"t","status":"resolved","impact":"none","message":"m"}`
	case "v1AddIncidentUpdate":
		return `{"status":"resolved","message":"m"}`
	}
	return ""
}

func TestEveryCodeOnEveryRoute(t *testing.T) {
	const secret = "panic in 10.1.2.3:9000/internal"
	h := start(t)
	for _, c := range everyCode {
		h.services.fail("", status.Error(c.code, secret))
		for _, route := range h.gateway.Routes() {
			if route.ID == "v1Me" { // calls no service
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", c.code, route.ID), func(t *testing.T) {
				got := h.do(t, "full", route.Method, target(route), validBody(route))
				got.mustFail(t, c.status, c.name)
				if strings.Contains(got.body, secret) {
					t.Error("the client reads the service's own words")
				}
				wantsRetry := c.status == 429 || c.status == 503
				if has := got.Header.Get("Retry-After") != ""; has != wantsRetry {
					t.Errorf("Retry-After = %q", got.Header.Get("Retry-After"))
				}
			})
		}
	}
	if !strings.Contains(h.log.String(), secret) {
		t.Error("the log does not have the cause")
	}
}

func withDetails(t *testing.T, code codes.Code, details ...protoadapt.MessageV1) error {
	t.Helper()
	st, err := status.New(code, "internal words").WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return st.Err()
}

func TestViolationsCarryTheNamesOfTheAPI(t *testing.T) {
	h := start(t)
	violation := func(field, text string) *errdetails.BadRequest_FieldViolation {
		return &errdetails.BadRequest_FieldViolation{Field: field, Description: text}
	}
	h.services.fail("CreateIncident", withDetails(t, codes.InvalidArgument, &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{
			violation("status_page_id", "is not a page of this team"),
			violation("component_ids[3]", "is not a component of this team"),
			violation("component_ids[5]", "comes too late"),
			violation("actor.token_id", "is odd"),
			violation("idempotency_key", "was used with another request"),
			violation("", "does not hold together"),
		},
	}))
	got := h.do(t, "full", "POST", "/v1/incidents", `{"title":"t","status":"resolved","impact":"none","message":"m"}`)
	want := map[string]string{
		"statusPageId": "is not a page of this team", "componentIds": "is not a component of this team", "actor": "is odd",
		"Idempotency-Key": "was used with another request", "request": "does not hold together",
	}
	if diff := cmp.Diff(want, got.mustFail(t, 422, "validation_error")); diff != "" {
		t.Error(diff)
	}
}

func TestAServiceThatAsksToSlowDown(t *testing.T) {
	h := start(t)
	h.services.fail("ListServers", withDetails(t, codes.ResourceExhausted, &errdetails.RetryInfo{RetryDelay: durationpb.New(6500 * time.Millisecond)}))
	got := h.get(t, "/v1/servers")
	got.mustFail(t, 429, "rate_limited")
	if after := got.Header.Get("Retry-After"); after != "7" {
		t.Errorf("Retry-After = %q, want 7: rounded up", after)
	}
	if !strings.Contains(got.body, "service behind") {
		t.Errorf("%s does not say who asked", got.body)
	}
}

func TestADeadlineThatPassesIsATimeout(t *testing.T) {
	h := start(t, func(o *Options) { o.Timeout = 50 * time.Millisecond })
	h.services.on("ListServers", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	h.get(t, "/v1/servers").mustFail(t, 504, "timeout")
}

func TestARouteMayHaveATimeoutOfItsOwn(t *testing.T) {
	h := start(t, func(o *Options) { o.Timeouts = map[string]time.Duration{"v1ListServers": time.Minute} })
	var left time.Duration
	h.services.on("ListServers", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return &fleetv1.ListServersResponse{}, nil
	})
	h.get(t, "/v1/servers").mustBe(t, 200)
	if left < 55*time.Second {
		t.Errorf("the service has %v, want a minute", left)
	}
}

func TestAClientThatHangsUpIsNoFailureOfOurs(t *testing.T) {
	h := start(t)
	called, ended := make(chan struct{}), make(chan struct{})
	h.services.on("ListServers", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		close(called)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	ctx, hangUp := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", h.URL+"/v1/servers", nil)
	req.Header.Set("Authorization", "Bearer full")
	go func() {
		<-called
		hangUp()
	}()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("the request was answered")
	}
	<-ended // the service's call ends with the client's
	h.Server.Close()
	if log := h.log.String(); !strings.Contains(log, `"status":499`) {
		t.Errorf("log = %s", log)
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	h := start(t)
	h.services.reply("GetServer", &fleetv1.GetServerResponse{}) // OK without the server: a breach of contract
	h.get(t, "/v1/servers/"+someID).mustFail(t, 500, "internal_error")
	if !strings.Contains(h.log.String(), "without the resource") {
		t.Error("the log does not have the cause")
	}

	panics := start(t, func(o *Options) { o.Authenticator = nilAuthenticator{} })
	panics.get(t, "/v1/me").mustFail(t, 500, "internal_error")
	if log := panics.log.String(); !strings.Contains(log, "panic: ") || !strings.Contains(log, "pipeline.go") {
		t.Error("the log does not have the panic and its stack")
	}
}

// A client that closes its sending side and still listens is as good as gone to net/http. It must not read a success that never
// was.
func TestAHalfClosedRequestIsNotAnsweredWithSuccess(t *testing.T) {
	h := start(t)
	h.services.on("CreateIncident", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := `{"title":"t","status":"resolved","impact":"none","message":"m"}`
	_, _ = fmt.Fprintf(conn, "POST /v1/incidents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer full\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("the client reads %q", answer)
	}
}
