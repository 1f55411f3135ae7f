package membership_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/membership"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore/redistest"
)

func TestMain(m *testing.M) {
	redisclient.LogTo(slog.New(slog.DiscardHandler))
	testkit.VerifyTestMain(m)
}

func newClient(t testing.TB, o redisclient.Options) *redisclient.Client {
	t.Helper()
	o.Timeout, o.DialTimeout = 5*time.Second, 5*time.Second // a slow machine must not fail the test
	client, err := redisclient.New(o)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// valueOf returns the value of a metric without labels.
func valueOf(t *testing.T, metrics *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	testkit.Must(t, err)
	for _, f := range families {
		if m := f.GetMetric()[0]; f.GetName() == name {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

const heartbeatsKey = "opsgate:replicas"

// heartbeat is the interval of tests that send the heartbeats themselves: far longer than a test.
const heartbeat = time.Minute

// A gateway is a Gateways with its metrics and log.
type gateway struct {
	*membership.Gateways

	registry *prometheus.Registry
	log      *testkit.Buffer
}

func newGateway(t testing.TB, client *redisclient.Client) *gateway {
	t.Helper()
	return newGatewayWithInterval(t, client, heartbeat)
}

func newGatewayWithInterval(t testing.TB, client *redisclient.Client, interval time.Duration) *gateway {
	t.Helper()
	g := &gateway{registry: prometheus.NewRegistry(), log: new(testkit.Buffer)}
	var err error
	g.Gateways, err = membership.New(membership.Options{
		Client: client, Interval: interval, Logger: slog.New(slog.NewTextHandler(g.log, nil)), Registerer: g.registry,
	})
	testkit.Must(t, err)
	return g
}

// startGateways returns n gateways, each with a client of its own, that have counted each other.
func startGateways(t *testing.T, n int, o redisclient.Options) []*gateway {
	t.Helper()
	gateways := make([]*gateway, n)
	for i := range gateways {
		gateways[i] = newGateway(t, newClient(t, o))
	}
	beat(t, 2, gateways...)
	wantCount(t, n, gateways...)
	return gateways
}

// beat sends heartbeats of each gateway, turn by turn.
func beat(t *testing.T, rounds int, gateways ...*gateway) {
	t.Helper()
	for range rounds {
		for _, g := range gateways {
			g.Heartbeat(t.Context())
		}
	}
}

func wantCount(t *testing.T, want int, gateways ...*gateway) {
	t.Helper()
	for i, g := range gateways {
		if n := g.Count(); n != want {
			t.Fatalf("gateway %d counts %d, want %d:\n%s", i, n, want, g.log)
		}
	}
}

// run runs the gateway until the test calls the function that it returns. A change is the count
// before and after.
func (g *gateway) run(t *testing.T) (stop func(), changes chan [2]int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	changes = make(chan [2]int, 1000)
	go func() {
		ended <- g.Run(ctx, func(before, after int) { changes <- [2]int{before, after} })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		testkit.Must(t, <-ended)
	})
	t.Cleanup(stop)
	return stop, changes
}

// topologies start servers of each kind.
var topologies = map[string]func(*testing.T) redisclient.Options{
	"single": func(t *testing.T) redisclient.Options {
		t.Helper()
		return redisclient.Options{Addresses: []string{redistest.Start(t).Addr()}}
	},
	"cluster": func(t *testing.T) redisclient.Options {
		t.Helper()
		return redisclient.Options{Addresses: redistest.StartCluster(t).Addrs()}
	},
	"sentinel": func(t *testing.T) redisclient.Options {
		t.Helper()
		sentinel := redistest.StartSentinel(t, "main", redistest.Start(t))
		return redisclient.Options{Addresses: []string{sentinel.Addr()}, MasterName: "main"}
	},
}

// A shortHeartbeats is a Redis whose answer to a heartbeat lacks a number.
type shortHeartbeats struct{}

func (shortHeartbeats) DialHook(next redis.DialHook) redis.DialHook { return next }

func (shortHeartbeats) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (shortHeartbeats) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if beat, ok := command.(*redis.Cmd); ok {
			beat.SetVal([]any{int64(1)})
		}
		return err
	}
}

func TestHeartbeatWithAnUnknownAnswerIsReported(t *testing.T) {
	client := newClient(t, redisclient.Options{Addresses: []string{redistest.Start(t).Addr()}})
	client.AddHook(shortHeartbeats{})
	g := newGateway(t, client)
	beat(t, 1, g)
	if log := g.log.String(); !strings.Contains(log, `error="the answer to a heartbeat has 1 numbers, not 2"`) {
		t.Errorf("logged %s", log)
	}
}

// Gateways that run count each other, and remove themselves when they end. The interval is short,
// so each count holds at some time only.
func TestRunningGatewaysAreCounted(t *testing.T) {
	server := redistest.Start(t)
	start := func() (g *gateway, stop func(), changes chan [2]int) {
		client := newClient(t, redisclient.Options{Addresses: []string{server.Addr()}})
		g = newGatewayWithInterval(t, client, 20*time.Millisecond)
		stop, changes = g.run(t)
		return g, stop, changes
	}
	first, stopFirst, changes := start()
	_, stopSecond, _ := start()
	testkit.Eventually(t, "a change is reported", func() bool { return len(changes) > 0 })
	if got := <-changes; got != [2]int{1, 2} {
		t.Errorf("changes from and to %v", got)
	}
	stopSecond()
	testkit.Eventually(t, "the gateway that ended is not counted", func() bool { return first.Count() == 1 })
	stopFirst()
	if n := server.Client().Exists(t.Context(), heartbeatsKey).Val(); n != 0 {
		t.Errorf("still in Redis: %v", server.Client().ZRangeWithScores(t.Context(), heartbeatsKey, 0, -1).Val())
	}
}

func TestGatewaysAreCounted(t *testing.T) {
	t.Parallel()
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			gateways := startGateways(t, 3, start(t))
			first := gateways[0]
			if n := valueOf(t, first.registry, "opsgate_rate_limit_replicas"); n != 3 {
				t.Errorf("the metric is %v", n)
			}
			for _, g := range gateways[1:] {
				end(t, g)
			}
			beat(t, 2, first)
			wantCount(t, 3, first)
			beat(t, 1, first)
			wantCount(t, 1, first)
			if log := first.log.String(); !strings.Contains(log, `msg="number of gateways changed" old=3 new=1`) {
				t.Errorf("got\n%s", log)
			}
		})
	}
}

// end ends a gateway as Run does.
func end(t *testing.T, g *gateway) {
	t.Helper()
	stop, _ := g.run(t)
	stop()
}

// A gateway is not counted after three missed heartbeats. Heartbeats in the future are from before
// the clock was set back.
func TestCrashedGatewayIsNotCounted(t *testing.T) {
	server := redistest.Start(t)
	g := startGateways(t, 1, redisclient.Options{Addresses: []string{server.Addr()}})[0]
	now := server.Client().Time(t.Context()).Val()
	at := func(name string, after time.Duration) redis.Z {
		return redis.Z{Score: float64(now.Add(after).UnixMilli()), Member: name}
	}
	err := server.Client().ZAdd(t.Context(), heartbeatsKey, at("crashed", -3*heartbeat), at("in the future", 4*heartbeat), at("slow", -2*heartbeat)).Err()
	testkit.Must(t, err)
	beat(t, 1, g)
	wantCount(t, 2, g)
	if left := server.Client().PTTL(t.Context(), heartbeatsKey).Val(); left <= 30*24*time.Hour {
		t.Errorf("the key expires in %v: before accounts of the longest window", left)
	}
}

// The number does not change while Redis is down, nor when it is restarted empty: the first gateway
// there must not count itself alone.
func TestNumberOfGatewaysIsKeptInAnOutage(t *testing.T) {
	server := redistest.Start(t)
	const n = 3
	gateways := startGateways(t, n, redisclient.Options{Addresses: []string{server.Addr()}})
	server.Kill()
	beat(t, 3, gateways...)
	wantCount(t, n, gateways...)
	server.Restart()
	for range n { // the first ones count fewer
		beat(t, 1, gateways...)
		wantCount(t, n, gateways...)
	}
	server.Flush() // no heartbeat fails
	for range 5 {
		beat(t, 1, gateways...)
		wantCount(t, n, gateways...)
	}
	for i, g := range gateways {
		if lines := strings.Count(g.log.String(), "gateways cannot be counted"); lines != 1 {
			t.Errorf("gateway %d: %d lines of one outage", i, lines)
		}
	}
}

// A Redis that evicts keys may lose the heartbeats again and again, so that a gateway finds few
// others, or none.
func TestLostHeartbeatsAreNotFewerGateways(t *testing.T) {
	server := redistest.Start(t)
	gateways := startGateways(t, 3, redisclient.Options{Addresses: []string{server.Addr()}})
	for round := range 12 {
		for i, g := range gateways {
			if (round+i)%4 < 2 { // before every gateway's heartbeat at times, and at other times before that of one
				server.Client().Del(t.Context(), heartbeatsKey)
			}
			beat(t, 1, g)
			wantCount(t, 3, gateways...)
		}
	}
	beat(t, 1, gateways...)
	end(t, gateways[2])
	beat(t, 3, gateways[:2]...)
	wantCount(t, 2, gateways[:2]...) // one is removed from a set that is not lost
}

func TestKeyOfAnotherTypeIsNotOverwritten(t *testing.T) {
	server := redistest.Start(t)
	gateways := startGateways(t, 2, redisclient.Options{Addresses: []string{server.Addr()}})
	testkit.Must(t, server.Client().Set(t.Context(), heartbeatsKey, "not a set", 0).Err())
	beat(t, 4, gateways...)
	wantCount(t, 2, gateways...)
	if got := server.Client().Get(t.Context(), heartbeatsKey).Val(); got != "not a set" {
		t.Errorf("the key has %q", got)
	}
	testkit.Must(t, server.Client().Del(t.Context(), heartbeatsKey).Err())
	beat(t, 1, gateways...)
	wantCount(t, 2, gateways...)
	if n := strings.Count(gateways[0].log.String(), "WRONGTYPE"); n != 1 || server.Client().ZCard(t.Context(), heartbeatsKey).Val() != 2 {
		t.Errorf("%d lines", n)
	}
}

func TestGatewaysNeedClientLoggerAndRegisterer(t *testing.T) {
	client := newClient(t, redisclient.Options{Addresses: []string{"127.0.0.1:1"}})
	logger, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	for name, o := range map[string]membership.Options{
		"no client": {Logger: logger, Registerer: registry}, "no logger": {Client: client, Registerer: registry},
		"no registerer": {Client: client, Logger: logger},
	} {
		if _, err := membership.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	o := membership.Options{Client: client, Logger: logger, Registerer: registry}
	r, err := membership.New(o)
	if err != nil || r.Count() != 1 {
		t.Fatalf("got %v", err)
	}
	if _, err := membership.New(o); err == nil {
		t.Error("two with one metric")
	}
}
