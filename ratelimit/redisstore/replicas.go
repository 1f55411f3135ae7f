package redisstore

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

const (
	defaultBeat = 2 * time.Second

	// missedBeats is after how many intervals without a beat a gateway is not counted.
	missedBeats = 3

	// steadyBeats is how many beats in a row must count fewer gateways before the count is lowered. A Redis that is back empty, or
	// whose clock has moved, counts one gateway after the other again within an interval.
	steadyBeats = 3
)

//go:embed lua/replicas.lua
var replicasLua string

// ReplicasOptions are the options of a Replicas. Client, Logger and Registerer are required.
type ReplicasOptions struct {
	Client   redis.UniversalClient   // made by [NewClient]; its owner closes it after [Replicas.Run] has returned
	Prefix   string                  // of the key; "" for "opsgate:". Gateways with the same prefix are counted together
	Interval time.Duration           // between beats, give or take a tenth; the same for all gateways; 0 for 2 s
	Changed  func(before, after int) // called by Run after each change of the count; nil for none

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Replicas counts the gateways that share a Redis. Each announces itself at an interval; one that has not for three intervals is not
// counted. It is safe for concurrent use.
type Replicas struct {
	client   redis.UniversalClient
	timeout  time.Duration
	key, id  string
	interval time.Duration
	changed  func(before, after int)
	logger   *slog.Logger

	count atomic.Int64

	// Used by Run alone.
	recent  []int // what the latest beats counted, at most steadyBeats; none since a beat failed
	failing bool  // the latest beat failed
}

// NewReplicas returns a count of one gateway, this one. It sends Redis nothing yet.
func NewReplicas(o ReplicasOptions) (*Replicas, error) {
	if o.Client == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("redis: counting gateways takes a client, a logger and a registerer")
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Interval == 0 {
		o.Interval = defaultBeat
	}
	if o.Changed == nil {
		o.Changed = func(int, int) {}
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // which never fails
	r := &Replicas{
		client: o.Client, timeout: timeoutOf(o.Client), key: o.Prefix + "replicas", id: hex.EncodeToString(id), interval: o.Interval,
		changed: o.Changed, logger: o.Logger,
	}
	r.count.Store(1)
	err := o.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_rate_limit_replicas",
		Help: "Gateways that share the Redis, this one among them, as they were last counted.",
	}, func() float64 { return float64(r.Count()) }))
	if err != nil {
		return nil, fmt.Errorf("metric of the number of gateways: %w", err)
	}
	return r, nil
}

// Count returns the number of gateways, at least 1. It is kept while Redis is away.
func (r *Replicas) Count() int { return int(r.count.Load()) }

// Run announces this gateway, at once and then at every interval, until ctx ends. Then it removes it, which takes no longer than a call
// to Redis may, and returns nil.
func (r *Replicas) Run(ctx context.Context) error {
	defer r.leave(ctx)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			r.beat(ctx)
			next.Reset(r.interval - r.interval/10 + mathrand.N(r.interval/5+1)) // gateways that started together spread
		}
	}
}

// beat announces this gateway and takes the count of Redis.
func (r *Replicas) beat(ctx context.Context) {
	bounded, cancel := r.bounded(ctx)
	defer cancel()
	kept := missedBeats * r.interval.Milliseconds()
	counted, err := r.client.Eval(bounded, replicasLua, []string{r.key}, r.id, kept).Int()
	if err != nil {
		if !r.failing {
			r.logger.Warn("gateways are not counted: their number is kept", slog.Int("replicas", r.Count()), slog.Any("error", err))
		}
		r.failing, r.recent = true, nil
		return
	}
	r.failing = false
	r.take(counted)
}

// take raises the count at once. It lowers it only when several beats in a row counted fewer, to the most that they did.
func (r *Replicas) take(counted int) {
	r.recent = append(r.recent, max(1, counted))
	r.recent = r.recent[max(0, len(r.recent)-steadyBeats):]
	before, most := r.Count(), slices.Max(r.recent)
	if most == before || most < before && len(r.recent) < steadyBeats {
		return
	}
	r.logger.Info("number of gateways changed", slog.Int("old", before), slog.Int("new", most))
	r.count.Store(int64(most))
	r.changed(before, most)
}

// leave removes this gateway from the count. If the call fails, the gateway is not counted after three intervals.
func (r *Replicas) leave(ctx context.Context) {
	bounded, cancel := r.bounded(ctx)
	defer cancel()
	if err := r.client.ZRem(bounded, r.key, r.id).Err(); err != nil {
		r.logger.Debug("this gateway is counted for some seconds more", slog.Any("error", err))
	}
}

// bounded returns a context for one call. It does not end with ctx: a call that is canceled costs its connection.
func (r *Replicas) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
}
