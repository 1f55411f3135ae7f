package redisstore_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

const (
	heartbeatsKey = "opsgate:replicas"
	// heartbeat is the interval in tests. Three intervals are longer than a goroutine waits on a slow machine. Tests that wait for several
	// run in parallel.
	heartbeat = time.Second
)

// A gateway is a Gateways that runs.
type gateway struct {
	*redisstore.Gateways

	registry *prometheus.Registry
	log      *testkit.Buffer
	beats    atomic.Int64 // heartbeats
	stop     func()       // ends Run; idempotent
	changed  func(before, after int)
	changes  func() [][2]int
}

// startReporting starts a gateway with a status.
func startReporting(t *testing.T, client *redisstore.Client, status func() []byte) *gateway {
	t.Helper()
	g := newGateway(t, client)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	beat := func() []byte {
		g.beats.Add(1)
		return status()
	}
	go func() { ended <- g.Run(ctx, beat, g.changed) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(g.stop)
	return g
}

func newGateway(t testing.TB, client *redisstore.Client) *gateway {
	t.Helper()
	var mu sync.Mutex
	var changes [][2]int
	g := &gateway{registry: prometheus.NewRegistry(), log: new(testkit.Buffer)}
	var err error
	g.Gateways, err = redisstore.NewGateways(redisstore.GatewaysOptions{
		Client: client, Interval: heartbeat, Logger: slog.New(slog.NewTextHandler(g.log, nil)), Registerer: g.registry,
	})
	testkit.Must(t, err)
	g.changed = func(before, after int) {
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, [2]int{before, after})
	}
	g.changes = func() [][2]int {
		mu.Lock()
		defer mu.Unlock()
		return changes
	}
	return g
}

// startGateways starts n gateways, each with a client of its own, and returns when each counts n.
func startGateways(t *testing.T, n int, o redisstore.ClientOptions) []*gateway {
	t.Helper()
	gateways := make([]*gateway, n)
	for i := range gateways {
		gateways[i] = startReporting(t, newClient(t, o), statusOf("a"))
	}
	for _, g := range gateways {
		testkit.Eventually(t, "all gateways are counted", func() bool {
			changes := g.changes() // the last one is reported after the count has changed
			return g.Count() == n && (n == 1 || len(changes) > 0 && changes[len(changes)-1][1] == n)
		})
	}
	return gateways
}

// topologies start servers of each kind.
var topologies = map[string]func(*testing.T) redisstore.ClientOptions{
	"single": func(t *testing.T) redisstore.ClientOptions {
		t.Helper()
		return redisstore.ClientOptions{Addresses: []string{redistest.Start(t).Addr()}}
	},
	"cluster": func(t *testing.T) redisstore.ClientOptions {
		t.Helper()
		return redisstore.ClientOptions{Addresses: redistest.StartCluster(t).Addrs()}
	},
	"sentinel": func(t *testing.T) redisstore.ClientOptions {
		t.Helper()
		sentinel := redistest.StartSentinel(t, "main", redistest.Start(t))
		return redisstore.ClientOptions{Addresses: []string{sentinel.Addr()}, MasterName: "main"}
	},
}

// A shortHeartbeats is a Redis whose answer to a heartbeat lacks a number.
type shortHeartbeats struct{ *countingHook }

func (shortHeartbeats) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		if beat, ok := commands[1].(*redis.Cmd); ok {
			beat.SetVal([]any{int64(1)})
		}
		return err
	}
}

func TestHeartbeatWithAnUnknownAnswerIsReported(t *testing.T) {
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{redistest.Start(t).Addr()}})
	client.AddHook(shortHeartbeats{new(countingHook)})
	g := startReporting(t, client, statusOf("a"))
	testkit.Eventually(t, "the error is logged", func() bool {
		return strings.Contains(g.log.String(), `error="the answer to a heartbeat has 1 numbers, not 2"`)
	})
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
			want := []string{first.ID(), gateways[1].ID(), gateways[2].ID()}
			slices.Sort(want)
			testkit.Eventually(t, "all are listed", func() bool { return slices.Equal(first.LastCounted().IDs, want) && first.LastCounted().Number == 3 })
			gateways[1].stop()
			gateways[2].stop()
			testkit.Eventually(t, "gateways that ended are not counted", func() bool { return first.Count() == 1 })
			if log := first.log.String(); !strings.Contains(log, `msg="number of gateways changed" old=`) || !strings.Contains(log, "new=1") {
				t.Errorf("got\n%s", log)
			}
		})
	}
}

func TestGatewayRemovesItselfWhenItEnds(t *testing.T) {
	server := redistest.Start(t)
	gateways := startGateways(t, 2, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	for _, g := range gateways {
		g.stop()
	}
	if n := server.Client().Exists(t.Context(), heartbeatsKey).Val(); n != 0 {
		t.Errorf("still in Redis: %v", server.Client().ZRangeWithScores(t.Context(), heartbeatsKey, 0, -1).Val())
	}
}

// A gateway is not counted after three missed heartbeats. Heartbeats in the future are from before the clock was set back.
func TestCrashedGatewayIsNotCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g := startGateways(t, 1, redisstore.ClientOptions{Addresses: []string{server.Addr()}})[0]
	now := server.Client().Time(t.Context()).Val()
	err := server.Client().ZAdd(t.Context(), heartbeatsKey, redis.Z{Score: float64(now.Add(time.Hour).UnixMilli()), Member: "in the future"},
		redis.Z{Score: float64(now.UnixMilli()), Member: "crashed"}).Err()
	testkit.Must(t, err)
	testkit.Eventually(t, "both are removed", func() bool { return server.Client().ZCard(t.Context(), heartbeatsKey).Val() == 1 })
	testkit.Eventually(t, "one gateway is counted", func() bool { return g.Count() == 1 })
	if left := server.Client().PTTL(t.Context(), heartbeatsKey).Val(); left <= 30*24*time.Hour {
		t.Errorf("the key expires in %v: before accounts of the longest window", left)
	}
}

// The number does not change while Redis is down, nor when it is restarted empty: the first gateway there must not count itself alone.
func TestNumberOfGatewaysIsKeptInAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const n = 3
	gateways := startGateways(t, n, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	before := make([]int, n)
	for i, g := range gateways {
		before[i] = len(g.changes())
	}
	server.Kill()
	for _, g := range gateways {
		testkit.Eventually(t, "a heartbeat fails", func() bool { return strings.Contains(g.log.String(), "gateways cannot be counted") })
	}
	testkit.Eventually(t, "the gateways are not known", func() bool { return gateways[0].LastCounted().Number == 0 })
	server.Restart()
	testkit.Eventually(t, "all gateways are in Redis", func() bool { return server.Client().ZCard(t.Context(), heartbeatsKey).Val() == n })
	testkit.Eventually(t, "the gateways are known", func() bool { return gateways[0].LastCounted().Number == n })
	server.Flush() // no heartbeat fails
	afterHeartbeats(t, gateways, 5, func() {
		if m := gateways[0].LastCounted(); m.Number != n {
			t.Errorf("gateways %v", m)
		}
	})
	for i, g := range gateways {
		if changes := g.changes()[before[i]:]; len(changes) > 0 || g.Count() != n {
			t.Errorf("gateway %d: changes %v, counts %d", i, changes, g.Count())
		}
		if m := g.LastCounted(); m.Number != n {
			t.Errorf("gateway %d: gateways %v", i, m)
		}
		if lines := strings.Count(g.log.String(), "gateways cannot be counted"); lines != 1 {
			t.Errorf("gateway %d: %d lines of one outage", i, lines)
		}
	}
}

// A Redis that evicts keys may lose the heartbeats again and again, so that a gateway finds few others, or none.
func TestLostHeartbeatsAreNotFewerGateways(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	gateways := startGateways(t, 3, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	afterHeartbeats(t, gateways, 6, func() {
		server.Client().Del(t.Context(), heartbeatsKey)
		for _, g := range gateways {
			if n := g.Count(); n != 3 {
				t.Fatalf("counts %d", n)
			}
		}
	})
	gateways[2].stop()
	testkit.Eventually(t, "one is removed from a set that is not lost", func() bool { return gateways[0].Count() == 2 && gateways[1].Count() == 2 })
}

// afterHeartbeats returns when each gateway has sent n more heartbeats. It calls do again and again until then.
func afterHeartbeats(t *testing.T, gateways []*gateway, n int64, do func()) {
	t.Helper()
	until := make([]int64, len(gateways))
	for i, g := range gateways {
		until[i] = g.beats.Load() + n
	}
	testkit.Eventually(t, "heartbeats are sent", func() bool {
		do()
		for i, g := range gateways {
			if g.beats.Load() < until[i] {
				return false
			}
		}
		return true
	})
}

func TestKeyOfAnotherTypeIsNotOverwritten(t *testing.T) {
	server := redistest.Start(t)
	g := startGateways(t, 2, redisstore.ClientOptions{Addresses: []string{server.Addr()}})[0]
	testkit.Must(t, server.Client().Set(t.Context(), heartbeatsKey, "not a set", 0).Err())
	testkit.Eventually(t, "it is logged", func() bool { return strings.Contains(g.log.String(), "WRONGTYPE") })
	if g.Count() != 2 || server.Client().Get(t.Context(), heartbeatsKey).Val() != "not a set" {
		t.Errorf("counts %d", g.Count())
	}
	testkit.Must(t, server.Client().Del(t.Context(), heartbeatsKey).Err())
	testkit.Eventually(t, "it is counted again", func() bool { return server.Client().ZCard(t.Context(), heartbeatsKey).Val() == 2 })
	if n := strings.Count(g.log.String(), "WRONGTYPE"); n != 1 || g.Count() != 2 {
		t.Errorf("%d lines, counts %d", n, g.Count())
	}
}

func TestGatewaysNeedClientLoggerAndRegisterer(t *testing.T) {
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{"127.0.0.1:1"}})
	logger, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	for name, o := range map[string]redisstore.GatewaysOptions{
		"no client": {Logger: logger, Registerer: registry}, "no logger": {Client: client, Registerer: registry},
		"no registerer": {Client: client, Logger: logger},
	} {
		if _, err := redisstore.NewGateways(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	o := redisstore.GatewaysOptions{Client: client, Logger: logger, Registerer: registry}
	r, err := redisstore.NewGateways(o)
	if err != nil || r.Count() != 1 {
		t.Fatalf("got %v", err)
	}
	if _, err := redisstore.NewGateways(o); err == nil {
		t.Error("two with one metric")
	}
}
