package failover_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// longTimeout is for tests in which a slow machine must not cause an outage.
const longTimeout = 5 * time.Second

// gateway returns a store over Redis that runs until the end of the test. A timeout of 0 is the
// default.
func gateway(t *testing.T, server *redistest.Server, replicas int, timeout time.Duration) *failover.Store {
	t.Helper()
	client, err := redisclient.New(redisclient.Options{
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
	running.Go(func() { _ = shared.Run(ctx, store) })
	running.Go(func() { _ = store.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = client.Close()
	})
	return store
}

// Redis is killed, and restarted empty. The admissions of the outage count afterwards; those before
// are forgotten.
func TestAdmissionsOfAnOutageCountInARestartedRedis(t *testing.T) {
	server := redistest.Start(t)
	one, two := gateway(t, server, 2, longTimeout), gateway(t, server, 2, longTimeout)
	p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
	before := admitted(t, one, "t", p, 150) + admitted(t, two, "t", p, 150) + admitted(t, one, "t", p, 1)
	server.Kill()
	beginOutage(t, one, p)
	beginOutage(t, two, p)
	during := admitted(t, one, "t", p, 1000) + admitted(t, two, "t", p, 1000) // all that remains
	if all := before + during; all != 1000 && all != 1001 {
		t.Fatalf("%d admitted; %+v, %+v", all, one.State(), two.State())
	}
	server.Restart()
	testkit.Eventually(t, "the background uploads have been made", func() bool {
		d, err := one.Peek(t.Context(), "t", p)
		return err == nil && !d.Local && d.Budgets[0].Remaining == 1000-during
	})
}

// A reset at one gateway reaches the other one, whose account would count in an outage.
func TestResetReachesOtherGateways(t *testing.T) {
	server := redistest.Start(t)
	one, two := gateway(t, server, 2, longTimeout), gateway(t, server, 2, longTimeout)
	p := ratelimittest.Policy(t, limit("hour", 10, time.Hour))
	admitted(t, two, "t", p, 10)
	testkit.Eventually(t, "the denial is dropped, so it is subscribed", func() bool {
		testkit.Must(t, one.Reset(t.Context(), "t"))
		return two.Entries() == 0
	})
	server.Kill()
	beginOutage(t, two, p)
	if n := admitted(t, two, "t", p, 10); n != 5 {
		t.Errorf("%d admitted after a reset, of a share of 5", n)
	}
}
