package backendclient_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	"opsgate/backendclient/endpoints"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// One of three endpoints fails while the others work. It gets no calls for a while, then it does.
func TestAnEndpointThatFailsAloneIsEjectedAndReturns(t *testing.T) {
	places := []*place{startPlace(t), startPlace(t), startPlace(t)}
	places[1].answerWith(always(status.Error(codes.Internal, "disk full")))
	registry, log := prometheus.NewRegistry(), make(lines, 100)
	clients := dial(t, fleetAt("static:///"+places[0].Address+","+places[1].Address+","+places[2].Address), backendclient.Quicken,
		func(o *backendclient.Options) {
			backendclient.EjectFor(o, 2*time.Second) // the ejection is seen before its end
			o.Registerer, o.Logger, o.Breaker.MinRequests = registry, slog.New(log), 100_000
		})
	awaitStates(t, clients, map[string]endpoints.State{
		places[0].Address: endpoints.Ready, places[1].Address: endpoints.Ready, places[2].Address: endpoints.Ready,
	})
	find := func() (found endpoints.Status) {
		for _, e := range clients.Services()["fleet"].Endpoints {
			if e.Address == places[1].Address {
				found = e
			}
		}
		return found
	}
	var e endpoints.Status
	eventually(t, clients, func() bool {
		e = find()
		return e.State == endpoints.Ejected
	})
	calls := places[1].calls.Load()
	if e.Cause != "Internal: disk full" || e.Ejections != 1 || e.EjectedUntil.Sub(e.Since).Milliseconds() > 2000 {
		t.Errorf("status %+v", e)
	}
	got := series(t, registry, "opsgate_upstream_endpoints")
	for state, want := range map[string]float64{"ready": 2, "ejected": 1, "connecting": 0, "unavailable": 0, "unhealthy": 0} {
		if n, exists := got["service=fleet state="+state]; find().State == e.State && (!exists || n != want) {
			t.Errorf("%v endpoints are %s, want %v", n, state, want)
		}
	}
	for end := time.Now().Add(time.Minute); find().State == endpoints.Ejected; {
		if time.Now().After(end) {
			t.Fatalf("ejected for more than a minute: %+v", find())
		}
		if err := getServer(t, clients); err != nil && find().State == endpoints.Ejected {
			t.Error(err)
		}
	}
	eventually(t, clients, func() bool { return places[1].calls.Load() > calls })
	mustCount(t, registry, "opsgate_upstream_ejections_total", 1)
	address := places[1].Address
	for _, want := range []string{
		fmt.Sprintf("endpoint is ejected service=fleet address=%s for=2s in_a_row=1 reason=Internal: disk full", address),
		fmt.Sprintf("endpoint is no longer ejected service=fleet address=%s reason=its time is over", address),
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

// All calls of a team fail at both processes, because of its data, or every other one. Neither
// process is ejected, whatever else is called.
func TestDataOfOneTeamEjectsNoEndpoint(t *testing.T) {
	for _, cause := range causes() {
		for _, failing := range []*traffic{{team: "all", every: 300 * time.Millisecond}, {team: "half", every: 1500 * time.Millisecond}} {
			for _, every := range []time.Duration{100 * time.Millisecond, time.Second, time.Hour} {
				t.Run(fmt.Sprintf("%s/%s/%v", cause.name, failing.team, every), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var calls atomic.Int64
						p := &process{answer: func(ctx context.Context, team string) (*fleetv1.GetServerResponse, error) {
							if team == "all" || team == "half" && calls.Add(1)%2 == 0 {
								return cause.answer(ctx)
							}
							return &fleetv1.GetServerResponse{}, nil
						}}
						registry := prometheus.NewRegistry()
						clients := inBubble(t, []*process{p, p}, func(o *backendclient.Options) {
							o.Registerer, o.Breaker.MinRequests = registry, 100_000
						})
						together(t, clients, 5*time.Minute, failing, &traffic{team: "other", every: every})
						mustCount(t, registry, "opsgate_upstream_ejections_total", 0)
					})
				})
			}
		}
	}
}

// One of two processes is frozen for half a minute. It gets no new calls after the first second,
// and gets calls again when it answers.
func TestAFrozenEndpointGetsNoNewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64 // to the process
		var frozen atomic.Bool
		thawed := make(chan struct{})
		works := &process{answer: func(context.Context, string) (*fleetv1.GetServerResponse, error) {
			time.Sleep(30 * time.Millisecond)
			return &fleetv1.GetServerResponse{}, nil
		}}
		freezes := &process{answer: func(ctx context.Context, team string) (*fleetv1.GetServerResponse, error) {
			if team != "" { // not a probe
				calls.Add(1)
			}
			if frozen.Load() {
				<-thawed
			}
			return works.answer(ctx, team)
		}}
		clients := inBubble(t, []*process{works, freezes})
		var others sync.WaitGroup
		load := traffic{team: "team", every: 10 * time.Millisecond, timeout: 10 * time.Second}
		others.Go(func() { load.run(t, clients, time.Minute) })
		time.Sleep(time.Second)
		frozen.Store(true)
		begin := calls.Load()
		time.Sleep(1200 * time.Millisecond)
		first := calls.Load()
		time.Sleep(30 * time.Second)
		if n := calls.Load() - first; n > 0 {
			t.Errorf("the frozen process got %d calls after the first second", n)
		}
		if s := clients.Services()["fleet"].Endpoints[1]; s.State != endpoints.Ejected || !strings.HasPrefix(s.Cause, "no answer for 1s") {
			t.Errorf("it is %+v", s)
		}
		frozen.Store(false)
		close(thawed)
		time.Sleep(12 * time.Second) // it is probed every 10 s
		if calls.Load() == first {
			t.Errorf("a process that answers again gets no calls: %+v", clients.Services()["fleet"].Endpoints)
		}
		others.Wait()
		if n := first - begin; int64(load.failures) > n {
			t.Errorf("%d calls failed, and %d were made in the first second: %v", load.failures, n, load.reasons)
		}
	})
}
