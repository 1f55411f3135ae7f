package conformance_test

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/conformance"
	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

const (
	heartbeat = 20 * time.Millisecond
	timeout   = 30 * time.Second // for events that should happen at once
)

// exampleFixtures is the example in the repository.
const exampleFixtures = "../../../deploy/conformance-fixtures.yaml"

// A reference is a running reference backend with demo data.
type reference struct {
	*service.Backend

	address string
}

func startReference(t *testing.T) reference {
	t.Helper()
	backend, err := service.Open(t.Context(), service.Options{DataDir: t.TempDir(), Heartbeat: heartbeat, Clock: coarseClock})
	testkit.Must(t, err)
	testkit.Must(t, demo.Seed(t.Context(), backend.Store(), tokenFormat(), coarseClock()))
	listener := listen(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- backend.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		testkit.Must(t, <-done)
		testkit.Must(t, backend.Close())
	})
	return reference{backend, listener.Addr().String()}
}

var began = time.Now()

// clock runs like time.Now in the middle of an hour, a day and a month: at their beginnings, the rows of the demo do not reveal each fault.
func clock() time.Time { return time.Date(2026, 3, 10, 9, 30, 17, 0, time.UTC).Add(time.Since(began)) }

// coarseClock ticks so rarely that a backend on a busy machine, too, creates several rows with times in one millisecond.
func coarseClock() time.Time { return clock().Truncate(time.Second) }

// revocable creates a live token, which a check may revoke.
func (r reference) revocable(t *testing.T) conformance.Revocable {
	t.Helper()
	text := []byte(uuid.NewString())
	hash := sha256.Sum256(text)
	token, err := r.CreateToken(t.Context(), service.NewToken{TeamID: fixtures(t).Teams[0].ID, Name: string(text), SHA256: hash})
	testkit.Must(t, err)
	return conformance.Revocable{Token: hash[:], Revoke: func(ctx context.Context) error {
		_, err := r.RevokeToken(ctx, token.ID)
		return err
	}}
}

func tokenFormat() authn.TokenFormat { return authn.TokenFormat{Prefix: "ops_"} }

// fixtures returns the example with the demo tokens.
func fixtures(t *testing.T) conformance.Fixtures {
	t.Helper()
	f, err := conformance.Load(exampleFixtures, demoVariables(t))
	testkit.Must(t, err)
	return f
}

// demoVariables returns the variables that the example names.
func demoVariables(t *testing.T) (variables []string) {
	t.Helper()
	tokens, err := demo.Tokens(tokenFormat())
	testkit.Must(t, err)
	for _, token := range tokens {
		name, known := map[string]string{"full": "HARBOUR_TOKEN", "other_team": "LIGHTHOUSE_TOKEN", "revoked": "REVOKED_TOKEN"}[token.Name]
		if known {
			variables = append(variables, name+"="+token.Text)
		}
	}
	return variables
}

// options returns the options of a run with all checks of the backend, or of a faulty one before it.
func options(t *testing.T, backend reference, address string) conformance.Options {
	t.Helper()
	o := conformance.Options{
		Addresses: map[string]string{}, Fixtures: fixtures(t), Checks: conformance.Checks(), Writes: true,
		HeartbeatTimeout: timeout, Grace: timeout, Clock: clock,
	}
	o.Fixtures.Revocable = backend.revocable(t)
	for _, service := range contract.Services() {
		o.Addresses[service.Name] = address
	}
	return o
}

// A fault changes requests or responses between the checks and the reference backend.
type fault struct {
	name string
	// fails and unproved are patterns of the checks that have to fail, and of those that must not be proved. All others have to pass.
	fails, unproved []string
	// unary handles calls; nil passes them on.
	unary func(c *intercepted) (proto.Message, error)
	// stream may change a message, and reports whether to send it; nil sends all.
	stream func(r *identityv1.WatchRevocationsRequest, n int, m *identityv1.WatchRevocationsResponse) (send bool)
	// noDeadlines ignores the deadlines of calls.
	noDeadlines bool
	// noHealth serves no health service.
	noHealth bool
	// ignorePosition starts streams at the present.
	ignorePosition bool
}

// An intercepted is a call from the checks to the backend.
type intercepted struct {
	ctx     context.Context
	method  contract.Method
	request proto.Message
	conn    *grpc.ClientConn
	state   *state
}

// pass sends a request to the backend.
func (c *intercepted) pass(request proto.Message) (proto.Message, error) {
	return c.passIn(c.ctx, request)
}

func (c *intercepted) passIn(ctx context.Context, request proto.Message) (proto.Message, error) {
	response := c.method.NewResponse()
	return response, c.conn.Invoke(ctx, c.method.Path(), request, response)
}

// intercept returns an interceptor that handles calls with the fault.
func (f fault) intercept(conn *grpc.ClientConn, s *state) grpc.UnaryServerInterceptor {
	methods := map[string]contract.Method{}
	for _, m := range contract.Methods() {
		methods[m.Path()] = m
	}
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler) (any, error) {
		method, ok := methods[info.FullMethod]
		if !ok { // the health service
			return serve(ctx, request)
		}
		c := &intercepted{ctx: ctx, method: method, request: request.(proto.Message), conn: conn, state: s}
		if f.unary != nil {
			return f.unary(c)
		}
		return c.pass(c.request)
	}
}

// startFaulty serves the backend with a fault, and returns the address.
func startFaulty(t *testing.T, backend reference, f fault, serving ...grpc.ServerOption) string {
	t.Helper()
	conn, err := grpc.NewClient(backend.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	testkit.Must(t, err)
	server := grpc.NewServer(append(serving, grpc.UnaryInterceptor(f.intercept(conn, newState(fixtures(t)))))...)
	fleetv1.RegisterFleetServiceServer(server, fleetv1.UnimplementedFleetServiceServer{})
	monitoringv1.RegisterMonitoringServiceServer(server, monitoringv1.UnimplementedMonitoringServiceServer{})
	incidentv1.RegisterIncidentServiceServer(server, incidentv1.UnimplementedIncidentServiceServer{})
	auditv1.RegisterAuditServiceServer(server, auditv1.UnimplementedAuditServiceServer{})
	identityv1.RegisterIdentityServiceServer(server, &revocationProxy{client: identityv1.NewIdentityServiceClient(conn), fault: f})
	if !f.noHealth {
		healthv1.RegisterHealthServer(server, &healthProxy{client: healthv1.NewHealthClient(conn)})
	}
	listener := listen(t)
	stop := serve(t, server, listener, f.noDeadlines)
	t.Cleanup(func() {
		stop()
		testkit.Must(t, conn.Close())
	})
	return listener.Addr().String()
}

// ignoredTimeout is the metadata with the ignored deadline of a call.
const ignoredTimeout = "ignored-timeout"

// serve serves in the background, and returns a function that stops it. With noDeadlines, calls pass through net/http, which removes their
// deadlines.
func serve(t *testing.T, server *grpc.Server, listener net.Listener, noDeadlines bool) (stop func()) {
	t.Helper()
	if !noDeadlines {
		go server.Serve(listener) //nolint:errcheck // the test stops it
		return server.Stop
	}
	proxy := &http.Server{
		Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set(ignoredTimeout, r.Header.Get("Grpc-Timeout"))
			r.Header.Del("Grpc-Timeout")
			server.ServeHTTP(w, r)
		}),
	}
	proxy.Protocols.SetUnencryptedHTTP2(true)
	go proxy.Serve(listener) //nolint:errcheck // the test stops it
	return func() {
		testkit.Must(t, proxy.Close())
		server.Stop()
	}
}

// healthProxy forwards health checks.
type healthProxy struct {
	healthv1.UnimplementedHealthServer
	client healthv1.HealthClient
}

func (h *healthProxy) Check(ctx context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	return h.client.Check(ctx, r)
}

// revocationProxy forwards revocation streams.
type revocationProxy struct {
	identityv1.UnimplementedIdentityServiceServer
	client identityv1.IdentityServiceClient
	fault  fault
}

func (w *revocationProxy) WatchRevocations(
	r *identityv1.WatchRevocationsRequest, to grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
) error {
	request := proto.CloneOf(r)
	if w.fault.ignorePosition {
		request.AfterPosition = ""
	}
	from, err := w.client.WatchRevocations(to.Context(), request)
	for n := 0; err == nil; n++ {
		var m *identityv1.WatchRevocationsResponse
		if m, err = from.Recv(); err == nil && (w.fault.stream == nil || w.fault.stream(r, n, m)) {
			err = to.Send(m)
		}
	}
	return err
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	return listener
}
