package redisstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

const (
	replicasKey = "opsgate:replicas"
	// heartbeat is the interval in tests. Three intervals are longer than a goroutine waits on a slow machine.
	heartbeat = 300 * time.Millisecond
)

// A gateway is a Replicas that runs.
type gateway struct {
	*redisstore.Replicas

	registry *prometheus.Registry
	log      *lockedBuffer
	stop     func() // ends Run; idempotent
	changed  func(before, after int)
	changes  func() [][2]int
}

// A lockedBuffer is written to by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startGateway(t *testing.T, client redis.UniversalClient) *gateway {
	t.Helper()
	return startReporting(t, client, nil)
}

// startReporting starts a gateway with a status.
func startReporting(t *testing.T, client redis.UniversalClient, status func() []byte) *gateway {
	t.Helper()
	g := newGateway(t, client)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx, status, g.changed) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(g.stop)
	return g
}

func newGateway(t testing.TB, client redis.UniversalClient) *gateway {
	t.Helper()
	var mu sync.Mutex
	var changes [][2]int
	g := &gateway{registry: prometheus.NewRegistry(), log: new(lockedBuffer)}
	var err error
	g.Replicas, err = redisstore.NewReplicas(redisstore.ReplicasOptions{
		Client: client, Interval: heartbeat, Logger: slog.New(slog.NewTextHandler(g.log, nil)), Registerer: g.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
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
		gateways[i] = startGateway(t, newClient(t, o))
	}
	for _, g := range gateways {
		eventually(t, "all gateways are counted", func() bool {
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

func TestGatewaysAreCounted(t *testing.T) {
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			gateways := startGateways(t, 3, start(t))
			first := gateways[0]
			if families, err := first.registry.Gather(); err != nil || len(families) != 1 ||
				families[0].GetName() != "opsgate_rate_limit_replicas" || families[0].GetMetric()[0].GetGauge().GetValue() != 3 {
				t.Errorf("got %v, %v", families, err)
			}
			gateways[1].stop()
			gateways[2].stop()
			eventually(t, "gateways that ended are not counted", func() bool { return first.Count() == 1 })
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
	if n := server.Client().Exists(t.Context(), replicasKey).Val(); n != 0 {
		t.Errorf("still in Redis: %v", server.Client().ZRangeWithScores(t.Context(), replicasKey, 0, -1).Val())
	}
}

// A gateway is not counted after three missed heartbeats. Heartbeats in the future are from before the clock was set back.
func TestCrashedGatewayIsNotCounted(t *testing.T) {
	server := redistest.Start(t)
	g := startGateways(t, 1, redisstore.ClientOptions{Addresses: []string{server.Addr()}})[0]
	now := server.Client().Time(t.Context()).Val()
	err := server.Client().ZAdd(t.Context(), replicasKey, redis.Z{Score: float64(now.Add(time.Hour).UnixMilli()), Member: "in the future"},
		redis.Z{Score: float64(now.UnixMilli()), Member: "crashed"}).Err()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are removed", func() bool { return server.Client().ZCard(t.Context(), replicasKey).Val() == 1 })
	eventually(t, "one gateway is counted", func() bool { return g.Count() == 1 })
	if left := server.Client().PTTL(t.Context(), replicasKey).Val(); left <= 0 || left > 3*heartbeat {
		t.Errorf("the key expires in %v", left)
	}
}

// The number does not change while Redis is down, nor when it is restarted empty: the first gateway there must not count itself alone.
func TestNumberOfGatewaysIsKeptInAnOutage(t *testing.T) {
	server := redistest.Start(t)
	const n = 3
	gateways := startGateways(t, n, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	before := make([]int, n)
	for i, g := range gateways {
		before[i] = len(g.changes())
	}
	server.Kill()
	for _, g := range gateways {
		eventually(t, "a heartbeat fails", func() bool { return strings.Contains(g.log.String(), "gateways cannot be counted") })
	}
	server.Restart()
	eventually(t, "all gateways are in Redis", func() bool { return server.Client().ZCard(t.Context(), replicasKey).Val() == n })
	allBeat(t, server, n) // else the lower counts from before and after the flush add up
	server.Flush()        // no heartbeat fails
	allBeat(t, server, n)
	for i, g := range gateways {
		if changes := g.changes()[before[i]:]; len(changes) > 0 || g.Count() != n {
			t.Errorf("gateway %d: changes %v, counts %d", i, changes, g.Count())
		}
		if lines := strings.Count(g.log.String(), "gateways cannot be counted"); lines != 1 {
			t.Errorf("gateway %d: %d lines of one outage", i, lines)
		}
	}
}

// allBeat waits until each of n gateways has sent two more heartbeats.
func allBeat(t *testing.T, server *redistest.Server, n int) {
	t.Helper()
	for range 2 {
		_, ids := idsOf(t, server)
		eventually(t, "all have sent a heartbeat", func() bool {
			now, later := idsOf(t, server)
			for id, at := range ids {
				if later[id] <= at {
					return false
				}
			}
			return now == n
		})
	}
}

// idsOf returns the number of gateways in Redis, and the time of the last heartbeat of each.
func idsOf(t *testing.T, server *redistest.Server) (n int, at map[string]float64) {
	t.Helper()
	at = make(map[string]float64)
	for _, z := range server.Client().ZRangeWithScores(t.Context(), replicasKey, 0, -1).Val() {
		at[z.Member.(string)] = z.Score
	}
	return len(at), at
}

func TestKeyOfAnotherTypeIsNotOverwritten(t *testing.T) {
	server := redistest.Start(t)
	g := startGateways(t, 2, redisstore.ClientOptions{Addresses: []string{server.Addr()}})[0]
	if err := server.Client().Set(t.Context(), replicasKey, "not a set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is logged", func() bool { return strings.Contains(g.log.String(), "WRONGTYPE") })
	if g.Count() != 2 || server.Client().Get(t.Context(), replicasKey).Val() != "not a set" {
		t.Errorf("counts %d", g.Count())
	}
	if err := server.Client().Del(t.Context(), replicasKey).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is counted again", func() bool { return server.Client().ZCard(t.Context(), replicasKey).Val() == 2 })
	if n := strings.Count(g.log.String(), "WRONGTYPE"); n != 1 || g.Count() != 2 {
		t.Errorf("%d lines, counts %d", n, g.Count())
	}
}

func TestReplicasNeedClientLoggerAndRegisterer(t *testing.T) {
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{"127.0.0.1:1"}})
	logger, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	for name, o := range map[string]redisstore.ReplicasOptions{
		"no client": {Logger: logger, Registerer: registry}, "no logger": {Client: client, Registerer: registry},
		"no registerer": {Client: client, Logger: logger},
	} {
		if _, err := redisstore.NewReplicas(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	o := redisstore.ReplicasOptions{Client: client, Logger: logger, Registerer: registry}
	r, err := redisstore.NewReplicas(o)
	if err != nil || r.Count() != 1 {
		t.Fatalf("got %v", err)
	}
	if _, err := redisstore.NewReplicas(o); err == nil {
		t.Error("two with one metric")
	}
}
