package chaos

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"opsgate/backendclient/testkit"
	"opsgate/backendclient/testkit/dnstest"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// link is a TCP proxy that tests can cut, reconnect and impair.
type link struct{ proxy *toxiproxy.Proxy }

// newLink returns a link to an address.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	return newLinkAt(t, testkit.FreeAddress(t), to)
}

// newLinkAt returns a link from one address to another.
func newLinkAt(t *testing.T, from, to string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	w := &link{proxy: toxiproxy.NewProxy(server, to, from, to)}
	w.reconnect(t)
	t.Cleanup(w.cut)
	return w
}

// address returns the address that clients connect to. It does not change when the link is cut and reconnected.
func (w *link) address() string { return w.proxy.Listen }

// cut closes all connections and refuses new ones.
func (w *link) cut() { w.proxy.Stop() }

func (w *link) reconnect(t *testing.T) {
	t.Helper()
	testkit.Must(t, w.proxy.Start())
}

// addToxic impairs the link with a toxic of toxiproxy:
//
//	{"type": "latency", "attributes": {"latency": 100, "jitter": 20}}
//	{"type": "limit_data", "stream": "upstream", "attributes": {"bytes": 100}}
//	{"type": "reset_peer", "attributes": {"timeout": 0}}
func (w *link) addToxic(t *testing.T, toxic string) {
	t.Helper()
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Fatal(err)
	}
}

// removeToxics removes all impairments.
func (w *link) removeToxics(t *testing.T) {
	t.Helper()
	w.proxy.Toxics.ResetToxics(t.Context())
}

// Existing connections do not need DNS. A gateway that starts without DNS serves once DNS is available.
func TestDNSUnavailable(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	b := startBackend(t)
	names := dnstest.Start(t, dnstest.Addresses(host(t, b.address)))
	behind := everyService("dns://" + names.Address + "/backend.test:" + port(t, b.address))
	g := startGateway(t, behind, unlimited)
	all := load{gateways: []*gateway{g}, client: newClient(t, nil), rate: 50, clients: 8}
	stop := all.start(t)
	sleep(t, time.Second/2)
	names.Set(nil)
	late := launchGateway(t, behind, unlimited)
	late.waitUntilServing(t)
	if a := me(t.Context(), all.client, late.url, tokens(t)["full"].Text); a.status != http.StatusServiceUnavailable || a.retryAfter == "" {
		t.Errorf("a gateway without DNS answers %d, retry-after %q", a.status, a.retryAfter)
	}
	sleep(t, either(4*time.Second, time.Second))
	noneFailed(t, stop())

	names.Set(dnstest.Addresses(host(t, b.address)))
	begun := time.Now()
	late.waitUntilReady(t)
	within(t, "until a gateway that started without DNS was ready, after DNS was available", time.Since(begun), 30*time.Second)
}

// The name of a service has no address for some time, for example during a new deployment.
func TestDNSNameWithoutAddress(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	names := dnstest.Start(t, dnstest.Addresses(host(t, b.address)))
	g := startGateway(t, everyService("dns://"+names.Address+"/backend.test:"+port(t, b.address)), unlimited)
	names.Set(dnstest.Addresses())
	b.End(t)
	client, token := newClient(t, nil), tokens(t)["full"].Text
	testkit.Eventually(t, "requests get 503", func() bool {
		return fetch(t.Context(), client, g.url+unknownServer, token).status == http.StatusServiceUnavailable
	})
	b.restart(t)
	names.Set(dnstest.Addresses(host(t, b.address)))
	begun := time.Now()
	testkit.Eventually(t, "requests succeed again", func() bool { return fetch(t.Context(), client, g.url+unknownServer, token).isAdmitted() })
	within(t, "until requests succeeded, after the name had an address", time.Since(begun), 40*time.Second)
}

func host(t *testing.T, address string) string {
	t.Helper()
	host, _ := split(t, address)
	return host
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port := split(t, address)
	return port
}

func split(t *testing.T, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	testkit.Must(t, err)
	return host, port
}

// relay forwards calls to the identity service with a delay. After mute, it refuses the revocation stream.
type relay struct {
	identityv1.UnimplementedIdentityServiceServer

	address string
	backend identityv1.IdentityServiceClient
	slow    time.Duration // delay of each lookup
	muted   chan struct{}
	mute    func()

	inFlight, maxInFlight, lookups atomic.Int64
}

func startRelay(t *testing.T, to string, slow time.Duration) *relay {
	t.Helper()
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()))
	testkit.Must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	r := &relay{
		address: listener.Addr().String(), backend: identityv1.NewIdentityServiceClient(conn), slow: slow, muted: make(chan struct{}),
	}
	r.mute = sync.OnceFunc(func() { close(r.muted) })
	server := grpc.NewServer()
	identityv1.RegisterIdentityServiceServer(server, r)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
		_ = conn.Close()
	})
	return r
}

// ResolveToken forwards the call after the delay.
func (r *relay) ResolveToken(ctx context.Context, request *identityv1.ResolveTokenRequest) (*identityv1.ResolveTokenResponse, error) {
	if len(request.GetTokenSha256()) == 0 { // a probe
		return r.backend.ResolveToken(ctx, request)
	}
	r.lookups.Add(1)
	now := r.inFlight.Add(1)
	defer r.inFlight.Add(-1)
	for highest := r.maxInFlight.Load(); now > highest && !r.maxInFlight.CompareAndSwap(highest, now); highest = r.maxInFlight.Load() {
	}
	if r.slow > 0 {
		select {
		case <-time.After(r.slow):
		case <-ctx.Done():
		}
	}
	return r.backend.ResolveToken(ctx, request)
}

// WatchRevocations forwards the stream until the relay is muted.
func (r *relay) WatchRevocations(
	request *identityv1.WatchRevocationsRequest, to grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse],
) error {
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	go func() {
		select {
		case <-r.muted:
			cancel()
		case <-ctx.Done():
		}
	}()
	from, err := r.backend.WatchRevocations(ctx, request)
	for err == nil {
		var message *identityv1.WatchRevocationsResponse
		if message, err = from.Recv(); err == nil {
			err = to.Send(message)
		}
	}
	select {
	case <-r.muted:
		return status.Error(codes.Unavailable, "muted")
	default:
		return err
	}
}

// startFake serves all internal services, calls do for each call except probes, and returns its address. It has no health service, so
// clients treat it as healthy.
func startFake(t *testing.T, do func(context.Context) error) (address string) {
	t.Helper()
	return serve(t, grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(stream); strings.HasPrefix(method, "/grpc.") {
			return status.Error(codes.Unimplemented, "unknown")
		}
		if err := stream.RecvMsg(new(emptypb.Empty)); err != nil {
			return err
		}
		if _, isCall := stream.Context().Deadline(); !isCall {
			return status.Error(codes.InvalidArgument, "the answer to a probe")
		}
		return do(stream.Context())
	})))
}

// serve serves on loopback until the test ends, and returns the address.
func serve(t *testing.T, server *grpc.Server) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// withSharedIdentity returns services at an address, with the identity service of the shared backend.
func withSharedIdentity(address string) services {
	s := everyService(address)
	s.identity = shared.address
	return s
}
