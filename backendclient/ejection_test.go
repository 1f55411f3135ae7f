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
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64 // to the one that fails
		works := &process{answer: func(context.Context, string) (*fleetv1.GetServerResponse, error) {
			return &fleetv1.GetServerResponse{}, nil
		}}
		fails := &process{answer: func(_ context.Context, team string) (*fleetv1.GetServerResponse, error) {
			if team != "" { // not a probe
				calls.Add(1)
			}
			return nil, status.Error(codes.Internal, "disk full")
		}}
		registry, log := prometheus.NewRegistry(), make(lines, 100)
		clients := inBubble(t, []*process{works, fails, works}, func(o *backendclient.Options) { o.Registerer, o.Logger = registry, slog.New(log) })
		find := func() endpoints.Status { return clients.Services()["fleet"].Endpoints[1] }
		callUntil := func(is func() bool) {
			for range 1000 {
				if is() {
					return
				}
				_ = callOf(t, clients, "team", time.Second)
				time.Sleep(100 * time.Millisecond)
			}
			t.Fatalf("after 1000 calls it is %+v", find())
		}
		callUntil(func() bool { return find().State == endpoints.Ejected })
		if e := find(); e.Cause != "Internal: disk full" || e.Ejections != 1 || e.EjectedUntil.Sub(e.Since) != 10*time.Second {
			t.Errorf("status %+v", e)
		}
		got := series(t, registry, "opsgate_upstream_endpoints")
		for state, want := range map[string]float64{"ready": 2, "ejected": 1, "connecting": 0, "unavailable": 0, "unhealthy": 0} {
			if n, exists := got["service=fleet state="+state]; !exists || n != want {
				t.Errorf("%v endpoints are %s, want %v", n, state, want)
			}
		}
		before := calls.Load()
		callUntil(func() bool { return find().State != endpoints.Ejected })
		if n := calls.Load() - before; n > 0 {
			t.Errorf("it got %d calls while it was ejected", n)
		}
		callUntil(func() bool { return calls.Load() > before })
		for _, want := range []string{
			"endpoint is ejected service=fleet address=process-1:1 for=10s in_a_row=1 reason=Internal: disk full",
			"endpoint is no longer ejected service=fleet address=process-1:1 reason=its time is over",
		} {
			line := <-log
			for !strings.HasPrefix(line, "endpoint") {
				line = <-log
			}
			if line != want {
				t.Errorf("logged %q, want %q", line, want)
			}
		}
		mustCount(t, registry, "opsgate_upstream_ejections_total", 1)
	})
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
