package backendclient_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"opsgate/backendclient"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// A process is one of several that serve the fleet service.
type process struct {
	server *grpc.Server
	checks *health.Server
	calls  atomic.Int64
}

// processes starts so many, and returns clients of them all when they are connected.
func processes(t *testing.T, n int) ([]*process, *backendclient.Clients) {
	t.Helper()
	names := manual.NewBuilderWithScheme("names")
	var addresses []resolver.Address
	all := make([]*process, n)
	for i := range all {
		p := &process{server: grpc.NewServer(), checks: health.NewServer()}
		fleetv1.RegisterFleetServiceServer(p.server, &backend{getServer: func(context.Context) (*fleetv1.GetServerResponse, error) {
			p.calls.Add(1)
			return &fleetv1.GetServerResponse{}, nil
		}})
		healthv1.RegisterHealthServer(p.server, p.checks)
		listener := listen(t, "127.0.0.1:0")
		served := make(chan error)
		go func() { served <- p.server.Serve(listener) }()
		t.Cleanup(func() {
			p.server.Stop()
			<-served
		})
		addresses = append(addresses, resolver.Address{Addr: listener.Addr().String()})
		all[i] = p
	}
	names.InitialState(resolver.State{Addresses: addresses})
	upstreams := at("passthrough:///" + addresses[0].Addr)
	upstreams.Fleet.Address = "names:///fleet"
	clients := dial(t, upstreams, func(o *backendclient.Options) { o.DialOptions = []grpc.DialOption{grpc.WithResolvers(names)} })
	for _, p := range all {
		eventually(t, clients, func() bool { return p.calls.Load() > 0 })
	}
	return all, clients
}

// eventually makes calls until something is so. They may fail, but too soon for a breaker to blame the service.
func eventually(t *testing.T, clients *backendclient.Clients, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _ = clients.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{}, grpc.WaitForReady(true))
		cancel()
		if time.Now().After(end) {
			t.Fatal("it did not come to be so")
		}
	}
}

// Limits and failures, row 10: reads go on when one of three processes is killed under them.
func TestAProcessThatDiesTakesNoReadWithIt(t *testing.T) {
	all, clients := processes(t, 3)
	var callers sync.WaitGroup
	var calls, failed atomic.Int64
	halfway := make(chan struct{})
	for range 4 {
		callers.Go(func() {
			for range 500 {
				if calls.Add(1) == 1000 {
					close(halfway)
				}
				if getServer(t, clients) != nil {
					failed.Add(1)
				}
			}
		})
	}
	<-halfway
	all[1].server.Stop()
	callers.Wait()
	if n := failed.Load(); n > 10 { // 0.5 %
		t.Errorf("%d of %d calls failed", n, calls.Load())
	}
	mustBe(t, clients, backendclient.BreakerClosed)
}

func TestAProcessThatDoesNotServeIsLeftOut(t *testing.T) {
	all, clients := processes(t, 2)
	serving := func(p *process, s healthv1.HealthCheckResponse_ServingStatus) { p.checks.SetServingStatus("", s) }
	count := func() int64 {
		before := all[0].calls.Load()
		for range 20 {
			_ = getServer(t, clients)
		}
		return all[0].calls.Load() - before
	}
	serving(all[0], healthv1.HealthCheckResponse_NOT_SERVING)
	eventually(t, clients, func() bool { return count() == 0 })
	serving(all[1], healthv1.HealthCheckResponse_NOT_SERVING)
	eventually(t, clients, func() bool { return clients.States()["fleet"] == connectivity.TransientFailure })
	if e := failure(t, getServer(t, clients)); e.Code != codes.Unavailable {
		t.Errorf("nobody serves: %v", e)
	}
	serving(all[0], healthv1.HealthCheckResponse_SERVING)
	eventually(t, clients, func() bool { return clients.States()["fleet"] == connectivity.Ready })
}
