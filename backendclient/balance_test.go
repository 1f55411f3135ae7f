package backendclient_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// processes starts n processes, and returns connected clients of all of them.
func processes(t *testing.T, n int, change ...func(*backendclient.Options)) ([]*place, *backendclient.Clients) {
	t.Helper()
	all, addresses := make([]*place, n), make([]string, n)
	for i := range all {
		all[i] = startPlace(t)
		addresses[i] = all[i].Address
	}
	clients := dial(t, at("static:///"+strings.Join(addresses, ",")), change...)
	for _, p := range all {
		eventually(t, clients, func() bool { return p.calls.Load() > 0 })
	}
	return all, clients
}

// eventually makes calls until the condition holds. They may fail, but their deadlines are too
// short for a breaker to count.
func eventually(t *testing.T, clients *backendclient.Clients, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _ = clients.Fleet.GetServer(ctx, &fleetv1.GetServerRequest{}, grpc.WaitForReady(true))
		cancel()
		if time.Now().After(end) {
			t.Fatalf("timed out; the endpoints of fleet: %+v", clients.Services()["fleet"].Endpoints)
		}
	}
}

// Reads continue when one of three processes is killed.
func TestReadsSurviveAKilledProcess(t *testing.T) {
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
	t.Logf("%d of %d calls failed", failed.Load(), calls.Load())
	if failed.Load() > 10 { // 0.5 %
		t.Error("more than 0.5 %")
	}
	mustBe(t, clients, breaker.Closed)
}

// A stream lives for days. If it counted, its process would get fewer calls all that time.
func TestAStreamDoesNotCountAsInFlight(t *testing.T) {
	all, clients := processes(t, 2)
	look := func() error {
		_, err := clients.Identity.ResolveToken(t.Context(), &identityv1.ResolveTokenRequest{}, grpc.WaitForReady(true))
		return err
	}
	for _, p := range all {
		before := p.calls.Load()
		testkit.Eventually(t, "each process gets a call", func() bool {
			_ = look()
			return p.calls.Load() > before
		})
	}
	if _, err := clients.Identity.WatchRevocations(t.Context(), &identityv1.WatchRevocationsRequest{}); err != nil {
		t.Fatal(err)
	}
	// A call that failed while the connections were made counts as in flight for another second.
	testkit.Eventually(t, "each process gets as many calls", func() bool {
		before := []int64{all[0].calls.Load(), all[1].calls.Load()}
		for range 20 {
			_ = look()
		}
		return all[0].calls.Load()-before[0] == 10 && all[1].calls.Load()-before[1] == 10
	})
}

// One process fails at once, and so is never busy. It gets few calls although its ejections are
// short.
func TestAFailingProcessGetsFewCalls(t *testing.T) {
	const callers, calls = 4, 300
	all, clients := processes(t, 3, backendclient.ProbePatiently, func(o *backendclient.Options) { backendclient.EjectFor(o, 1) })
	all[1].answerWith(always(unavailable))
	before := all[1].calls.Load()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				_ = callFor(t, clients, time.Second)
			}
		})
	}
	wg.Wait()
	if n := all[1].calls.Load() - before; n == 0 || n > callers*calls/20 {
		t.Errorf("the failing process got %d of %d calls", n, callers*calls)
	}
	mustBe(t, clients, breaker.Closed)
	all[1].answer.Store(nil)
	after := all[1].calls.Load()
	eventually(t, clients, func() bool { return all[1].calls.Load() > after+10 })
}

func TestAnUnhealthyProcessGetsNoCalls(t *testing.T) {
	all, clients := processes(t, 2)
	serving := func(p *place, s healthv1.HealthCheckResponse_ServingStatus) { p.checks.SetServingStatus("", s) }
	count := func() int64 {
		before := all[0].calls.Load()
		for range 20 {
			_ = getServer(t, clients)
		}
		return all[0].calls.Load() - before
	}
	serving(all[0], healthv1.HealthCheckResponse_NOT_SERVING)
	eventually(t, clients, func() bool { return count() == 0 })
	if got := slices.Collect(maps.Values(states(clients))); len(got) != 2 || !slices.Contains(got, "unhealthy") || !slices.Contains(got, "ready") {
		t.Errorf("states %v", got)
	}
	serving(all[1], healthv1.HealthCheckResponse_NOT_SERVING)
	eventually(t, clients, func() bool { return clients.Services()["fleet"].Connection == connectivity.TransientFailure })
	if e := failure(t, getServer(t, clients)); e.Code != codes.Unavailable {
		t.Errorf("no process is healthy: %v", e)
	}
	serving(all[0], healthv1.HealthCheckResponse_SERVING)
	eventually(t, clients, func() bool { return clients.Services()["fleet"].Connection == connectivity.Ready })
}
