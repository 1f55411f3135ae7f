package failover_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// longTimeout is for tests in which a slow machine must not cause an outage.
const longTimeout = 5 * time.Second

// gateway returns a store over Redis that runs until the end of the test. A timeout of 0 is the default.
func gateway(t *testing.T, server *redistest.Server, replicas int, timeout time.Duration) *failover.Store {
	t.Helper()
	client, err := redisstore.NewClient(redisstore.ClientOptions{
		Addresses: []string{server.Addr()}, PoolSize: 16, Timeout: timeout, DialTimeout: 2 * timeout,
	})
	testkit.Must(t, err)
	log, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	shared, err := redisstore.New(redisstore.Options{Client: client, Logger: log, Registerer: registry})
	testkit.Must(t, err)
	store := newStore(t, failover.Options{
		Shared: shared, Settings: failover.Settings{Gateways: replicas, ProbeEvery: 100 * time.Millisecond}, Logger: log, Registerer: registry,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = shared.Run(ctx, func(string) {}) })
	running.Go(func() { _ = store.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = client.Close()
	})
	return store
}

// awaitShared waits until the shared store decides on the token.
func awaitShared(t *testing.T, s *failover.Store, token string, p *ratelimit.Policy) {
	t.Helper()
	testkit.Eventually(t, "redis decides", func() bool {
		d, err := s.Peek(t.Context(), token, p)
		return err == nil && !d.Local
	})
}

// Redis is killed and restarted empty. The admissions of both gateways count afterwards.
func TestUsageSurvivesARestartOfAnEmptyRedis(t *testing.T) {
	server := redistest.Start(t)
	one, two := gateway(t, server, 2, longTimeout), gateway(t, server, 2, longTimeout)
	p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
	admissions := admitted(t, one, "t", p, 150) + admitted(t, two, "t", p, 150) + admitted(t, one, "t", p, 1)
	server.Kill()
	beginOutage(t, one, p)
	beginOutage(t, two, p)
	admissions += admitted(t, one, "t", p, 100) + admitted(t, two, "t", p, 100)
	if one.State().Mode == ratelimit.ModeShared || two.State().Mode == ratelimit.ModeShared || admissions != 501 {
		t.Fatalf("%d admitted; %+v, %+v", admissions, one.State(), two.State())
	}
	more := admitted(t, one, "t", p, 1000) + admitted(t, two, "t", p, 1000) // all that remains
	if admissions+more < 990 || admissions+more > 1050 {
		t.Errorf("%d of 1000 admitted", admissions+more)
	}
	server.Restart()
	awaitShared(t, one, "t", p)
	awaitShared(t, two, "t", p)
	if d := decide(t, two, "t", p); d.Allowed || d.Local {
		t.Errorf("%d of 1000 admitted: %+v", admissions+more, d)
	}
}

// A Redis that hangs delays requests by its timeout until the outage begins; local admissions count once when it answers again. On a busy
// machine an upload may time out too and then not count (docs/operate/store-failure.md), but not five times in a row.
func TestHangingRedisCausesAnOutageAndRecovers(t *testing.T) {
	for attempt := 1; ; attempt++ {
		counted, admissions, late := useHangingRedis(t)
		if counted >= admissions-late && counted <= admissions+late {
			return
		}
		t.Logf("%d counted, %d admitted", counted, admissions)
		if attempt == 5 {
			t.Fatal("local admissions did not count, or counted twice, five times in a row")
		}
	}
}

// useHangingRedis returns the number of admissions that Redis counts after it hung, the number of admissions, and the number of requests
// during the hang before the outage began: Redis may have executed their calls as well.
func useHangingRedis(t *testing.T) (counted, admissions, late int) {
	t.Helper()
	server := redistest.Start(t)
	store := gateway(t, server, 1, 0)
	p := ratelimittest.Policy(t, limit("hour", 100_000, time.Hour))
	admissions = admitted(t, store, "t", p, 100)
	server.Pause()
	paused := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	var slowest time.Duration
	request := func() {
		began := time.Now()
		d := decide(t, store, "t", p)
		mu.Lock()
		defer mu.Unlock()
		slowest = max(slowest, time.Since(began))
		if d.Allowed {
			admissions++
		}
	}
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	for store.State().Mode == ratelimit.ModeShared {
		if time.Since(paused) > 10*time.Second { // 0.1 s on an idle machine
			t.Fatal("no outage after ten seconds")
		}
		<-every.C
		all.Go(request)
		late++
	}
	begun := time.Since(paused)
	all.Wait()
	began := time.Now()
	for range 1000 {
		request()
	}
	t.Logf("outage after %v, slowest request %v, then %v each", begun, slowest, time.Since(began)/1000)
	server.Resume()
	awaitShared(t, store, "t", p)
	d := decide(t, store, "t", p)
	return 100_000 - d.Budgets[0].Remaining, admissions + 1, late
}
