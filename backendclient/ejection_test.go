package backendclient_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// One of three endpoints fails while the others work. It gets no calls for a while, then it does.
func TestAnEndpointThatFailsAloneIsEjectedAndReturns(t *testing.T) {
	places := []*place{startPlace(t), startPlace(t), startPlace(t)}
	places[1].answer = always(status.Error(codes.Internal, "disk full"))
	registry, log := prometheus.NewRegistry(), make(lines, 100)
	clients := dial(t, fleetAt("static:///"+places[0].Address+","+places[1].Address+","+places[2].Address), backendclient.Quicken,
		func(o *backendclient.Options) {
			o.Registerer, o.Logger, o.Breaker.MinRequests = registry, slog.New(log), 100_000
		})
	for _, p := range places {
		<-p.begun
	}
	find := func() (found backendclient.EndpointStatus) {
		for _, e := range clients.Endpoints()["fleet"] {
			if e.Address == places[1].Address {
				found = e
			}
		}
		return found
	}
	eventually(t, clients, func() bool { return find().State == backendclient.EndpointEjected })
	e, calls := find(), places[1].calls.Load()
	if e.Cause != "Internal: disk full" || e.Ejections != 1 || e.EjectedUntil.Sub(e.Since).Milliseconds() > 200 {
		t.Errorf("status %+v", e)
	}
	const metric = "opsgate_upstream_endpoints"
	got := series(t, registry, metric)
	for state, want := range map[string]float64{"ready": 2, "ejected": 1, "connecting": 0, "unavailable": 0, "unhealthy": 0} {
		if n, exists := got[metric+" service=fleet state="+state]; find().State == e.State && (!exists || n != want) {
			t.Errorf("%v endpoints are %s, want %v", n, state, want)
		}
	}
	for find().State == backendclient.EndpointEjected {
		if err := getServer(t, clients); err != nil && find().State == backendclient.EndpointEjected {
			t.Error(err)
		}
	}
	eventually(t, clients, func() bool { return places[1].calls.Load() > calls })
	const name = "opsgate_upstream_ejections_total"
	if n := series(t, registry, name)[name+" service=fleet"]; n != 1 {
		t.Errorf("%v ejections", n)
	}
	address := places[1].Address
	for _, want := range []string{
		fmt.Sprintf("endpoint is ejected service=fleet address=%s for=200ms in_a_row=1 because=Internal: disk full", address),
		fmt.Sprintf("endpoint is no longer ejected service=fleet address=%s because=its time is over", address),
	} {
		line := <-log
		for strings.HasPrefix(line, "internal service") || strings.HasPrefix(line, "circuit") {
			line = <-log
		}
		if line != want {
			t.Errorf("logged %q, want %q", line, want)
		}
	}
}

// Answers that a service gives to a bad request say nothing about the endpoint, and neither does a failure of all endpoints.
func TestNoEndpointIsEjectedFor(t *testing.T) {
	for name, answers := range map[string][2]error{
		"answers of a service that works": {status.Error(codes.NotFound, "none"), nil},
		"a failure of the whole service":  {unavailable, unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			places := []*place{startPlace(t), startPlace(t)}
			registry := prometheus.NewRegistry()
			for i, p := range places {
				p.answer = always(answers[i])
			}
			clients := dial(t, fleetAt("static:///"+places[0].Address+","+places[1].Address), backendclient.Quicken,
				func(o *backendclient.Options) {
					o.Registerer, o.Breaker.MinRequests, o.MaxInFlight = registry, 100_000, 100_000
				})
			eventually(t, clients, func() bool { return places[0].calls.Load() > 30 && places[1].calls.Load() > 30 })
			const metric = "opsgate_upstream_ejections_total"
			if n := series(t, registry, metric)[metric+" service=fleet"]; n != 0 {
				t.Errorf("%v ejections", n)
			}
		})
	}
}

// A process that is replaced breaks its connection with many calls in flight. Its successor gets calls at once.
func TestNoEndpointIsEjectedForABrokenConnection(t *testing.T) {
	works := startPlace(t)
	listener := &cutting{Listener: listen(t, "127.0.0.1:0")}
	arrived, registry := make(chan struct{}, 100), prometheus.NewRegistry()
	(&backend{getServer: func(ctx context.Context) (*fleetv1.GetServerResponse, error) {
		if deadline, _ := ctx.Deadline(); time.Until(deadline) > time.Second {
			arrived <- struct{}{}
		}
		return nil, hang(ctx)
	}}).serve(t, listener)
	clients := dial(t, fleetAt("static:///"+works.Address+","+listener.Addr().String()), backendclient.Quicken,
		func(o *backendclient.Options) {
			o.Registerer, o.Retries.Max, o.Breaker.MinRequests = registry, 0, 100_000
		})
	<-works.begun
	var calls sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(arrived) < 10 { // the others succeed
		calls.Go(func() { _, _ = clients.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{}) })
		_ = callFor(t, clients, 20*time.Millisecond)
	}
	listener.cut()
	eventually(t, clients, func() bool { return works.calls.Load() > 50 })
	cancel()
	calls.Wait()
	const metric = "opsgate_upstream_ejections_total"
	if n := series(t, registry, metric)[metric+" service=fleet"]; n != 0 {
		t.Errorf("%v ejections", n)
	}
}
