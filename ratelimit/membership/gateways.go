package membership

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/pulse"
	"opsgate/ratelimit/redisclient"
)

const (
	defaultInterval = 2 * time.Second

	// missedHeartbeats is the number of intervals without a heartbeat after which a gateway is not
	// counted.
	missedHeartbeats = 3

	// lowerAfter is the number of consecutive heartbeats with fewer gateways after which the count
	// is lowered.
	lowerAfter = 3

	defaultPrefix = "opsgate:"
)

//go:embed lua/heartbeat.lua
var heartbeatLua string

// Options are the options of a Gateways. Client, Logger and Registerer are required.
type Options struct {
	Client   *redisclient.Client // its owner closes it after [Gateways.Run] has returned
	Prefix   string              // of the keys; "" for "opsgate:". Gateways with the same prefix are counted together
	Interval time.Duration       // between heartbeats; the same for all gateways; 0 for 2 s

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Gateways counts the gateways that share a Redis. Each gateway sends a heartbeat at an interval,
// and is not counted after three intervals without one. It is safe for concurrent use.
type Gateways struct {
	client        *redisclient.Client
	heartbeatsKey string
	id            string // of this gateway
	interval      time.Duration
	logger        *slog.Logger

	count atomic.Int64 // confirmed by several heartbeats, if it was lowered

	evicting, evictedKeys atomic.Int64 // see Eviction

	// Used by Run alone.
	beats       int              // consecutive successful heartbeats
	lowerCounts []int            // of the last heartbeats, if each was lower than count; fewer than lowerAfter
	missed      int              // consecutive failed heartbeats
	evicted     map[string]int64 // keys that each process of Redis had evicted, as last read
	infoDenied  bool             // Redis refused the last INFO that it answered
}

// New returns a Gateways whose count is 1, for this gateway. It does not call Redis yet.
func New(o Options) (*Gateways, error) {
	if o.Client == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("membership: counting gateways needs a client, a logger and a registerer")
	}
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	g := &Gateways{
		client: o.Client, heartbeatsKey: o.Prefix + "replicas", id: hex.EncodeToString(id),
		interval: cmp.Or(o.Interval, defaultInterval), logger: o.Logger, evicted: make(map[string]int64),
	}
	g.count.Store(1)
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_rate_limit_replicas",
			Help: "Gateways that share the Redis, this one included, by their heartbeats; kept during an outage.",
		}, func() float64 { return float64(g.Count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_rate_limit_redis_evicting_servers",
			Help: "Redis servers whose maxmemory-policy evicts keys; 0 if the gateway may not read it.",
		}, func() float64 { return float64(g.evicting.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_redis_evicted_keys_total",
			Help: "Keys that the Redis servers evicted, of any program, since the gateway first read their number.",
		}, func() float64 { return float64(g.evictedKeys.Load()) }),
	} {
		if err := o.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the gateways and of Redis: %w", err)
		}
	}
	return g, nil
}

// Count returns the number of gateways, at least 1. It does not change during outages of Redis.
func (g *Gateways) Count() int { return int(g.count.Load()) }

// Run sends heartbeats, the first one at once, until ctx ends. Then it removes this gateway from
// the count, within the timeout of a call, and returns nil. It calls changed after each change of
// the count.
func (g *Gateways) Run(ctx context.Context, changed func(before, after int)) error {
	defer g.unregister(ctx)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			before := g.Count()
			g.heartbeat(ctx)
			if after := g.Count(); after != before {
				changed(before, after)
			}
			next.Reset(pulse.Until(g.interval))
		}
	}
}

// sendHeartbeat sends a heartbeat. It returns the number of gateways, and whether Redis lacked this
// one.
func (g *Gateways) sendHeartbeat(ctx context.Context) (counted int, added bool, err error) {
	callCtx, cancel := g.client.CallContext(ctx)
	defer cancel()
	kept := missedHeartbeats * g.interval.Milliseconds()
	answer, err := g.client.Eval(callCtx, heartbeatLua, []string{g.heartbeatsKey}, g.id, kept).Int64Slice()
	if err == nil && len(answer) != 2 {
		err = fmt.Errorf("the answer to a heartbeat has %d numbers, not 2", len(answer))
	}
	if err != nil {
		return 0, false, err
	}
	return int(answer[0]), answer[1] != 0, nil
}

// heartbeat sends a heartbeat, and updates the count.
func (g *Gateways) heartbeat(ctx context.Context) {
	counted, added, err := g.sendHeartbeat(ctx)
	if err != nil {
		g.recordMissed(err)
		return
	}
	g.missed = 0
	g.update(counted, added)
	if g.beats++; g.beats%evictionEvery == 1 {
		_ = g.readEviction(ctx) // limits do not depend on it
	}
}

// recordMissed records a failed heartbeat.
func (g *Gateways) recordMissed(err error) {
	g.beats = 0
	g.lowerCounts = nil
	g.missed++
	if g.missed == 1 {
		g.logger.Warn("gateways cannot be counted: the last count is kept", slog.Int("replicas", g.Count()),
			slog.Any("error", err))
	}
}

// update applies a count. A higher one applies at once, and a lower one after lowerAfter of them in
// a row, as the largest of these. If Redis lacked this gateway, it may have lost the others too, so
// the row of lower counts begins again: each running gateway has three intervals to register.
func (g *Gateways) update(counted int, redisLackedThis bool) {
	before, after := g.Count(), counted
	if counted == before || counted < before && redisLackedThis {
		g.lowerCounts = nil
		return
	}
	if counted < before {
		if g.lowerCounts = append(g.lowerCounts, counted); len(g.lowerCounts) < lowerAfter {
			return
		}
		after = slices.Max(g.lowerCounts)
	}
	g.lowerCounts = nil
	g.logger.Info("number of gateways changed", slog.Int("old", before), slog.Int("new", after))
	g.count.Store(int64(after))
}

// unregister removes this gateway from the count. If the call fails, the gateway is not counted
// after three intervals.
func (g *Gateways) unregister(ctx context.Context) {
	callCtx, cancel := g.client.CallContext(ctx)
	defer cancel()
	if err := g.client.ZRem(callCtx, g.heartbeatsKey, g.id).Err(); err != nil {
		g.logger.Debug("this gateway is counted for some seconds more", slog.Any("error", err))
	}
}
