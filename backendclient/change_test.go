package backendclient_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/stats"

	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/internal/certs"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// connections counts the connections of a server.
type connections struct{ begun, ended chan struct{} }

func (connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connections) HandleRPC(context.Context, stats.RPCStats)                         {}
func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c connections) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.begun <- struct{}{}
	case *stats.ConnEnd:
		c.ended <- struct{}{}
	}
}

// A place is a server at an address of its own.
type place struct {
	backendclient.Target
	connections

	server  *grpc.Server
	checks  *health.Server
	calls   atomic.Int64                                // unary ones, without probes of fleet
	answer  atomic.Pointer[func(context.Context) error] // of GetServer; nil for success
	streams chan struct{}                               // a value for each stream that began
}

func (p *place) answerWith(answer func(context.Context) error) { p.answer.Store(&answer) }

func (p *place) count(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if info.FullMethod != fleetv1.FleetService_ListServers_FullMethodName {
		p.calls.Add(1)
	}
	return handle(ctx, request)
}

func startPlace(t *testing.T) *place {
	t.Helper()
	return startPlaceAt(t, "127.0.0.1:0")
}

func startPlaceAt(t *testing.T, address string) *place {
	t.Helper()
	p := &place{
		connections: connections{begun: make(chan struct{}, 100), ended: make(chan struct{}, 100)},
		streams:     make(chan struct{}, 10),
	}
	b := &backend{
		getServer: func(ctx context.Context) (*fleetv1.GetServerResponse, error) {
			if answer := p.answer.Load(); answer != nil {
				return &fleetv1.GetServerResponse{}, (*answer)(ctx)
			}
			return &fleetv1.GetServerResponse{}, nil
		},
		watchRevocations: func(_ *identityv1.WatchRevocationsRequest, stream watchServer) error {
			p.streams <- struct{}{}
			return hang(stream.Context())
		},
	}
	listener := listen(t, address)
	p.Address = listener.Addr().String()
	p.server, p.checks = b.serve(t, listener, grpc.StatsHandler(p.connections), grpc.UnaryInterceptor(p.count))
	return p
}

// only returns upstreams of which fleet is at the place.
func (p *place) only() backendclient.Upstreams {
	u := at("passthrough:///x")
	u.Fleet = p.Target
	return u
}

// move prepares and applies a change of upstreams.
func move(t *testing.T, clients *backendclient.Clients, to backendclient.Upstreams) {
	t.Helper()
	change, err := clients.Prepare(to)
	testkit.Must(t, err)
	change.Apply()
}

func TestAStreamMovesToTheNewAddressAtOnce(t *testing.T) {
	before, after := startPlace(t), startPlace(t)
	upstreams := at("passthrough:///x")
	upstreams.Identity = before.Target
	clients := dial(t, upstreams)
	open := func() grpc.ServerStreamingClient[identityv1.WatchRevocationsResponse] {
		stream, err := clients.Identity.WatchRevocations(t.Context(), &identityv1.WatchRevocationsRequest{}, grpc.WaitForReady(true))
		testkit.Must(t, err)
		return stream
	}
	stream := open()
	<-before.streams
	upstreams.Identity = after.Target
	move(t, clients, upstreams)
	_, err := stream.Recv()
	if e := failure(t, err); e.Code != codes.Unavailable {
		t.Errorf("the stream ended with %v", e)
	}
	<-before.ended
	open()
	<-after.streams
}

func TestCallsSucceedWhileAddressesChange(t *testing.T) {
	const changes, callers = 40, 4
	places := []*place{startPlace(t), startPlace(t)}
	clients := dial(t, places[0].only())
	var load sync.WaitGroup
	done := make(chan struct{})
	for range callers {
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := getServer(t, clients); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range changes {
		next := places[(i+1)%2]
		move(t, clients, next.only())
		before := next.calls.Load()
		eventually(t, clients, func() bool { return next.calls.Load() >= before+callers || t.Failed() })
	}
	close(done)
	load.Wait()
	for range changes/2 - 1 {
		<-places[0].ended
	}
}

func TestAnUnchangedUpstreamKeepsItsConnection(t *testing.T) {
	b := startPlace(t)
	b.TLS = nil
	clients := dial(t, at(b.Address))
	for range 5 {
		<-b.begun
	}
	upstreams := at(b.Address)
	upstreams.Audit.Address = "passthrough:///" + b.Address
	move(t, clients, upstreams)
	<-b.begun
	<-b.ended
	if len(b.begun)+len(b.ended) > 0 {
		t.Error("other connections were replaced")
	}
}

// nowhere returns upstreams of which fleet is at an address that does not respond.
func nowhere() backendclient.Upstreams {
	upstreams := at("passthrough:///x")
	upstreams.Fleet.Address = "127.0.0.1:1"
	return upstreams
}

func TestAnAddressThatDoesNotRespondIsRefusedWhileTheOneInUseDoes(t *testing.T) {
	b := startPlace(t)
	clients := dial(t, b.only())
	testkit.Must(t, getServer(t, clients))
	wrong := nowhere()
	want := wrong.Fleet.Address + " is not reachable, and " + b.Address + ", which is in use, is: connection refused"
	_, err := clients.Prepare(wrong)
	refused, is := errors.AsType[*backendclient.ChangeError](err)
	if !is || refused.Service != "fleet" || !strings.HasPrefix(refused.Err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if err := getServer(t, clients); err != nil || b.calls.Load() != 2 {
		t.Errorf("%v, %d calls at the address in use", err, b.calls.Load())
	}
}

// Neither the address in use nor the next one responds. The next one is in force, and can be
// changed again.
func TestAnAddressThatDoesNotRespondCanBeChanged(t *testing.T) {
	b := startPlace(t)
	log := make(lines, 100)
	clients := dial(t, nowhere(), func(o *backendclient.Options) {
		o.Logger, o.Breaker.MinRequests, o.Breaker.FailureRate = slog.New(log), 1, 1
	})
	move(t, clients, nowhere())
	if e := failure(t, getServer(t, clients)); e.Code != codes.Unavailable {
		t.Errorf("%v, want Unavailable", e)
	}
	mustBe(t, clients, breaker.Open)
	move(t, clients, b.only())
	mustBe(t, clients, breaker.Closed)
	if err := getServer(t, clients); err != nil {
		t.Error(err)
	}
	for line := range log {
		if line == "circuit breaker is closed service=fleet method=GetServer reason=the address of the service was changed" {
			break
		}
	}
}

func TestARefusedOrDiscardedChangeChangesNothing(t *testing.T) {
	before, after := startPlace(t), startPlace(t)
	clients := dial(t, before.only())
	<-before.begun
	change, err := clients.Prepare(after.only())
	testkit.Must(t, err)
	<-after.begun
	change.Discard()
	<-after.ended

	invalid := after.only()
	invalid.Audit.TLS = &certs.ClientFiles{CAFile: "nowhere.pem"}
	if _, err := clients.Prepare(invalid); err == nil {
		t.Error("no error for files that do not exist")
	}
	if err := getServer(t, clients); err != nil || before.calls.Load() != 1 {
		t.Errorf("%v, %d calls at the address in use", err, before.calls.Load())
	}
}
