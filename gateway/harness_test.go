package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
	"opsgate/ratelimit"
)

const (
	teamID  = "0a0a0a0a-0000-7000-8000-000000000001"
	tokenID = "0b0b0b0b-0000-7000-8000-000000000001"
	someID  = "0c0c0c0c-0000-7000-8000-000000000001"
	otherID = "0d0d0d0d-0000-7000-8000-000000000002"
)

// services implements all gRPC calls of a test: by the function set for the method, or with an
// empty message.
type services struct {
	mu      sync.Mutex
	answers map[string]func(context.Context, proto.Message) (proto.Message, error)
	last    proto.Message
}

// on sets the function of a method, for example GetServer. The empty name is all other methods.
func (s *services) on(method string, answer func(context.Context, proto.Message) (proto.Message, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[method] = answer
}

// reply sets the response of a method.
func (s *services) reply(method string, m proto.Message) {
	s.on(method, func(context.Context, proto.Message) (proto.Message, error) { return m, nil })
}

// fail sets the error of a method.
func (s *services) fail(method string, err error) {
	s.on(method, func(context.Context, proto.Message) (proto.Message, error) { return nil, err })
}

func (s *services) lastRequest() proto.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// intercept replaces the methods of the Unimplemented servers.
func (s *services) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	s.mu.Lock()
	s.last = req.(proto.Message)
	answer := s.answers[method]
	if answer == nil {
		answer = s.answers[""]
	}
	s.mu.Unlock()
	if answer == nil {
		return next(ctx, req)
	}
	return answer(ctx, req.(proto.Message))
}

// tokens is an Authenticator with fixed principals by token.
type tokens map[string]*authn.Principal

func (k tokens) Authenticate(_ context.Context, token string, _ authn.Source) (*authn.Principal, error) {
	switch p := k[token]; {
	case p != nil:
		return p, nil
	case token == "identity-unavailable":
		return nil, fmt.Errorf("%w: %w", authn.ErrUnavailable, &backendclient.Error{Service: "identity", Code: codes.Unimplemented})
	}
	return nil, fmt.Errorf("%w: unknown", authn.ErrInvalidToken)
}

type harness struct {
	*httptest.Server
	services *services
	gateway  *Gateway
	registry *prometheus.Registry
	log      *testkit.Buffer
}

// start runs a gateway with real gRPC services and a real HTTP server. A change may be nil.
func start(tb testing.TB, change ...func(*Options)) *harness {
	tb.Helper()
	h := &harness{
		services: &services{answers: map[string]func(context.Context, proto.Message) (proto.Message, error){}},
		registry: prometheus.NewRegistry(), log: new(testkit.Buffer),
	}
	o := optionsWith(tb, h.services)
	metrics, err := NewMetrics(h.registry)
	testkit.Must(tb, err)
	o.Metrics = metrics
	o.LoadLimit = newLoadLimit(1000, 64<<20, 64<<20)
	o.Logger = slog.New(slog.NewJSONHandler(h.log, nil))
	o.Refunds = nil
	for _, c := range change {
		if c != nil {
			c(&o)
		}
	}
	testkit.Must(tb, o.LoadLimit.register(h.registry))
	if o.Refunds == nil {
		o.Refunds = NewRefunds(RefundsOptions{Limiter: o.Limiter, Metrics: metrics, Logger: o.Logger, Lines: o.Lines.Failed})
	}
	gateway, err := New(o)
	testkit.Must(tb, err)
	h.gateway = gateway
	h.Server = httptest.NewServer(gateway)
	tb.Cleanup(h.Close)
	return h
}

// sendRefunds sends the queued refunds. A test decides when they are sent.
func (h *harness) sendRefunds(tb testing.TB) {
	tb.Helper()
	ended, cancel := context.WithCancel(tb.Context())
	cancel()
	if err := h.gateway.options.Refunds.Run(ended); err != nil {
		tb.Error(err)
	}
}

// optionsWith returns options with clients of the services and limits that no test reaches.
func optionsWith(tb testing.TB, s *services) Options {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(tb, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	fleetv1.RegisterFleetServiceServer(server, fleetv1.UnimplementedFleetServiceServer{})
	monitoringv1.RegisterMonitoringServiceServer(server, monitoringv1.UnimplementedMonitoringServiceServer{})
	incidentv1.RegisterIncidentServiceServer(server, incidentv1.UnimplementedIncidentServiceServer{})
	auditv1.RegisterAuditServiceServer(server, auditv1.UnimplementedAuditServiceServer{})
	grpctest.Serve(tb, server, listener)

	upstream := backendclient.Target{Address: listener.Addr().String()}
	// These services fail as often as a test needs: no breaker opens, and no call is retried.
	settings := backendclient.DefaultSettings()
	settings.Retries.Max, settings.Breaker.MinRequests = 0, 1<<30
	clients, err := backendclient.Dial(backendclient.Options{
		Settings: settings,
		Upstreams: backendclient.Upstreams{
			Fleet: upstream, Monitoring: upstream, Incident: upstream, Audit: upstream, Identity: upstream,
		},
	})
	testkit.Must(tb, err)
	tb.Cleanup(func() { _ = clients.Close() })

	principal := func(scopes ...authn.Scope) *authn.Principal {
		return &authn.Principal{TokenID: tokenID, TeamID: teamID, Scopes: authn.NewScopes(scopes...), AIPlan: true}
	}
	known := tokens{"full": principal(authn.AllScopes()...), "none": principal(), "no_plan": principal(authn.AllScopes()...)}
	known["no_plan"].AIPlan = false
	for _, scope := range authn.AllScopes() {
		known[tokenOf(scope)] = principal(scope)
	}
	limiter := ratelimit.NewMemory(time.Now)
	return Options{
		Fleet: clients.Fleet, Monitoring: clients.Monitoring, Incident: clients.Incident, Audit: clients.Audit,
		Authenticator: known,
		Limiter:       limiter,
		Refunds:       NewRefunds(RefundsOptions{Limiter: limiter, Metrics: newMetrics()}),
		Policies:      policies(tb, ratelimit.Limit{Name: "second", Requests: 1_000_000, Per: time.Second}),
	}
}

// policies returns policies that give each token the limits.
func policies(tb testing.TB, limits ...ratelimit.Limit) *ratelimit.Policies {
	tb.Helper()
	p, err := ratelimit.NewPolicies(ratelimit.Assignment{Policy: policy(tb, limits...)})
	testkit.Must(tb, err)
	return p
}

func policy(tb testing.TB, limits ...ratelimit.Limit) *ratelimit.Policy {
	tb.Helper()
	p, err := ratelimit.NewPolicy(limits)
	testkit.Must(tb, err)
	return p
}

// tokenOf returns the token with one scope.
func tokenOf(scope authn.Scope) string { return strings.ReplaceAll(string(scope), ":", ".") }

// An answer is a response and its body.
type answer struct {
	*http.Response
	body string
}

// do sends a request with a token; "" sends none. Headers are given as "Name: value".
func (h *harness) do(tb testing.TB, token, method, target, body string, headers ...string) answer {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, h.URL+target, strings.NewReader(body))
	testkit.Must(tb, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, value)
	}
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	testkit.Must(tb, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	testkit.Must(tb, err)
	return answer{resp, string(data)}
}

func (h *harness) get(tb testing.TB, target string, headers ...string) answer {
	tb.Helper()
	return h.do(tb, "full", http.MethodGet, target, "", headers...)
}

// mustFail checks the status, the code, and that the body is an error object with details exactly
// for a 403 or 422.
func (a answer) mustFail(tb testing.TB, status int, code string) map[string]string {
	tb.Helper()
	var e struct {
		Error   string
		Code    string
		Details map[string]string
	}
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		tb.Fatalf("%d %q is not an error object: %v", a.StatusCode, a.body, err)
	}
	if a.StatusCode != status || e.Code != code || e.Error == "" {
		tb.Fatalf("got %d %s, want %d %s", a.StatusCode, a.body, status, code)
	}
	if got := a.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		tb.Errorf("Content-Type = %q", got)
	}
	if wants := status == 403 || status == 422; wants != (len(e.Details) > 0) {
		tb.Errorf("%d has details %v", status, e.Details)
	}
	return e.Details
}

func (a answer) mustBe(tb testing.TB, status int) answer {
	tb.Helper()
	if a.StatusCode != status {
		tb.Fatalf("got %d %s, want %d", a.StatusCode, a.body, status)
	}
	return a
}
