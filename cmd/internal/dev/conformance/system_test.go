package conformance_test

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/dev/conformance"
	"opsgate/internal/testkit"
	"opsgate/proto/contract"
	identityv1 "opsgate/proto/ops/identity/v1"
)

const (
	heartbeat = 20 * time.Millisecond
	timeout   = 30 * time.Second // for events that should happen at once
)

// exampleFixtures is the example in the repository.
const exampleFixtures = "../../../../deploy/conformance-fixtures.yaml"

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

// clock runs like time.Now in the middle of an hour, a day and a month: at their beginnings, the
// rows of the demo do not reveal each fault.
func clock() time.Time { return time.Date(2026, 3, 10, 9, 30, 17, 0, time.UTC).Add(time.Since(began)) }

// coarseClock ticks so rarely that a backend on a busy machine, too, creates several rows with
// times in one millisecond.
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

// options returns the options of a run with all checks of the backend, or of a faulty one before
// it.
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
	// fails and unproved are patterns of the checks that have to fail, and of those that must not
	// be proved. All others have to pass.
	fails, unproved []string
	// unary handles calls; nil passes them on.
	unary func(c *intercepted) (proto.Message, error)
	// stream may change a message, and reports whether to send it; nil sends all.
	stream func(r *watchRequest, n int, m *watchResponse) (send bool)
	// noDeadlines ignores the deadlines of calls.
	noDeadlines bool
	// noHealth serves no health service, and notServing reports NOT_SERVING to who watches the
	// empty name.
	noHealth, notServing bool
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

// handle handles each call to a service before the backend, with the fault.
func (f fault) handle(conn *grpc.ClientConn, s *state, stream grpc.ServerStream) error {
	path, _ := grpc.MethodFromServerStream(stream)
	if path == healthv1.Health_Check_FullMethodName && !f.noHealth {
		request := &healthv1.HealthCheckRequest{}
		return answer(stream, request, func() (proto.Message, error) {
			return healthv1.NewHealthClient(conn).Check(stream.Context(), request)
		})
	}
	if path == healthv1.Health_Watch_FullMethodName && f.notServing {
		return answer(stream, &healthv1.HealthCheckRequest{}, func() (proto.Message, error) {
			return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}, nil
		})
	}
	all := contract.Methods()
	at := slices.IndexFunc(all, func(m contract.Method) bool { return m.Path() == path })
	if at < 0 {
		return status.Error(codes.Unimplemented, path)
	}
	c := &intercepted{ctx: stream.Context(), method: all[at], request: all[at].ReadRequest(contract.Target{}), conn: conn, state: s}
	if r, ok := c.request.(*watchRequest); ok {
		return f.watch(conn, stream, r)
	}
	return answer(stream, c.request, func() (proto.Message, error) {
		if f.unary != nil {
			return f.unary(c)
		}
		return c.pass(c.request)
	})
}

// answer reads the request of a unary call, and sends the response.
func answer(stream grpc.ServerStream, request proto.Message, call func() (proto.Message, error)) error {
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	response, err := call()
	if err != nil {
		return err
	}
	return stream.SendMsg(response)
}

// watch forwards a revocation stream.
func (f fault) watch(conn *grpc.ClientConn, to grpc.ServerStream, r *watchRequest) error {
	if err := to.RecvMsg(r); err != nil {
		return err
	}
	request := proto.CloneOf(r)
	if f.ignorePosition {
		request.AfterPosition = ""
	}
	from, err := identityv1.NewIdentityServiceClient(conn).WatchRevocations(to.Context(), request)
	for n := 0; err == nil; n++ {
		var m *watchResponse
		if m, err = from.Recv(); err == nil && (f.stream == nil || f.stream(r, n, m)) {
			err = to.SendMsg(m)
		}
	}
	return err
}

// startFaulty serves the backend with a fault, and returns the address.
func startFaulty(t *testing.T, backend reference, f fault, serving ...grpc.ServerOption) string {
	t.Helper()
	conn, err := grpc.NewClient(backend.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	testkit.Must(t, err)
	s := &state{fixtures: fixtures(t)}
	server := grpc.NewServer(append(serving, grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		return f.handle(conn, s, stream)
	}))...)
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

// serve serves in the background, and returns a function that stops it. With noDeadlines, calls
// pass through net/http, which removes their deadlines.
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

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	return listener
}
