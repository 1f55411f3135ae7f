package backendclient_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"opsgate/backendclient"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// backend implements one unary method and one stream with functions of the test.
type backend struct {
	fleetv1.UnimplementedFleetServiceServer
	identityv1.UnimplementedIdentityServiceServer

	getServer        func(context.Context) (*fleetv1.GetServerResponse, error)
	watchRevocations func(*identityv1.WatchRevocationsRequest, watchServer) error
}

type watchServer = grpc.ServerStreamingServer[identityv1.WatchRevocationsResponse]

func (b *backend) GetServer(ctx context.Context, _ *fleetv1.GetServerRequest) (*fleetv1.GetServerResponse, error) {
	return b.getServer(ctx)
}

func (b *backend) WatchRevocations(request *identityv1.WatchRevocationsRequest, stream watchServer) error {
	return b.watchRevocations(request, stream)
}

// errProbed is the contract's answer to a request without fields.
var errProbed = status.Error(codes.InvalidArgument, "a field is missing")

func (b *backend) ListServers(context.Context, *fleetv1.ListServersRequest) (*fleetv1.ListServersResponse, error) {
	return nil, errProbed
}

func (b *backend) ResolveToken(context.Context, *identityv1.ResolveTokenRequest) (*identityv1.ResolveTokenResponse, error) {
	return nil, errProbed
}

// serve serves the backend on the listener until the test ends. The services that it does not
// implement answer errProbed.
func (b *backend) serve(t testing.TB, listener net.Listener, options ...grpc.ServerOption) (*grpc.Server, *health.Server) {
	t.Helper()
	options = append(options, grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return errProbed }))
	server, checks := grpc.NewServer(options...), health.NewServer()
	healthv1.RegisterHealthServer(server, checks)
	fleetv1.RegisterFleetServiceServer(server, b)
	identityv1.RegisterIdentityServiceServer(server, b)
	grpctest.Serve(t, server, listener)
	return server, checks
}

// at returns the five services at one address.
func at(address string) backendclient.Upstreams {
	u := backendclient.Target{Address: address}
	return backendclient.Upstreams{Fleet: u, Monitoring: u, Incident: u, Audit: u, Identity: u}
}

// dial returns clients with default options and the changes. They are closed when the test ends.
func dial(t testing.TB, upstreams backendclient.Upstreams, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	o := backendclient.Options{Upstreams: upstreams, Settings: backendclient.DefaultSettings()}
	for _, c := range change {
		c(&o)
	}
	clients, err := backendclient.Dial(o)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := clients.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return clients
}

// over returns clients of the backend over TCP.
func over(t testing.TB, b *backend, change ...func(*backendclient.Options)) *backendclient.Clients {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	b.serve(t, listener)
	return dial(t, at(listener.Addr().String()), change...)
}

// runProbes runs the probes of clients until the test ends.
func runProbes(t testing.TB, clients *backendclient.Clients) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- clients.RunProbes(t.Context()) }()
	t.Cleanup(func() { testkit.Must(t, <-ended) })
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	testkit.Must(t, err)
	return listener
}

// failing returns a backend whose GetServer fails with the status.
func failing(t testing.TB, s *status.Status, details ...protoadapt.MessageV1) *backend {
	t.Helper()
	if len(details) > 0 {
		var err error
		if s, err = s.WithDetails(details...); err != nil {
			t.Fatal(err)
		}
	}
	return &backend{getServer: func(context.Context) (*fleetv1.GetServerResponse, error) { return nil, s.Err() }}
}

// getServer calls GetServer with ample time.
func getServer(t testing.TB, clients *backendclient.Clients) error {
	t.Helper()
	return callFor(t, clients, 10*time.Second)
}

// failure returns the *Error that a failed call returned.
func failure(t testing.TB, err error) *backendclient.Error {
	t.Helper()
	var e *backendclient.Error
	if !errors.As(err, &e) {
		t.Fatalf("the call returned %v (%T), want an *Error", err, err)
	}
	return e
}

// plainCredentials is the credentials option of connections that Dial did not make.
func plainCredentials() grpc.DialOption {
	return grpc.WithTransportCredentials(insecure.NewCredentials())
}
