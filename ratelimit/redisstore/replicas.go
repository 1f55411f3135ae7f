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
	defaultInterval = 2 * time.Second

	// missedHeartbeats is the number of intervals without a heartbeat after which a gateway is not counted.
	missedHeartbeats = 3

	// steadyHeartbeats is the number of consecutive heartbeats with fewer gateways after which the count is lowered. It keeps the
	// count after a restart of Redis without data, or a change of its clock: all gateways send a heartbeat again within an interval.
	steadyHeartbeats = 3
)

//go:embed lua/replicas.lua
var replicasLua string

// ReplicasOptions are the options of a Replicas. Client, Logger and Registerer are required.
type ReplicasOptions struct {
	Client   redis.UniversalClient // made by [NewClient]; its owner closes it after [Replicas.Run] has returned
	Prefix   string                // of the key; "" for "opsgate:". Gateways with the same prefix are counted together
	Interval time.Duration         // between heartbeats, ±10 %; the same for all gateways; 0 for 2 s

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Replicas counts the gateways that share a Redis, and shares their statuses. Each gateway sends a heartbeat at an interval, and is
// not counted after three intervals without one. It is safe for concurrent use.
type Replicas struct {
	client   redis.UniversalClient
	timeout  time.Duration
	key, id  string
	peersKey string
	interval time.Duration
	logger   *slog.Logger

	count     atomic.Int64
	beats     atomic.Int64          // consecutive successful heartbeats
	statusErr atomic.Pointer[error] // of the last write of the status; nil for none

	// Used by Run alone.
	recent  []int // counts of the last heartbeats, at most steadyHeartbeats; none after a failure
	failing bool  // the last heartbeat failed
	cleaned bool  // old statuses were removed
}

// NewReplicas returns a Replicas whose count is 1, for this gateway. It does not call Redis yet.
func NewReplicas(o ReplicasOptions) (*Replicas, error) {
	if o.Client == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("redis: counting gateways needs a client, a logger and a registerer")
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	r := &Replicas{
		client: o.Client, timeout: timeoutOf(o.Client), key: o.Prefix + "replicas", peersKey: o.Prefix + "gateways",
		id: hex.EncodeToString(id), interval: o.Interval, logger: o.Logger,
	}
	r.count.Store(1)
	err := o.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_rate_limit_replicas",
		Help: "Gateways that share the Redis, this one included, by their heartbeats; kept during an outage.",
	}, func() float64 { return float64(r.Count()) }))
	if err != nil {
		return nil, fmt.Errorf("metric of the number of gateways: %w", err)
	}
	return r, nil
}

// Count returns the number of gateways, at least 1. It does not change during outages of Redis.
func (r *Replicas) Count() int { return int(r.count.Load()) }

// Run sends heartbeats with the status of this gateway, at most [MaxStatus] bytes, the first one at once, until ctx ends. Then it removes
// this gateway from the count, within the timeout of a call, and returns nil. It calls changed after each change of the count. If status is
// nil, it sends none.
func (r *Replicas) Run(ctx context.Context, status func() []byte, changed func(before, after int)) error {
	defer r.unregister(ctx, status != nil)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			before := r.Count()
			r.heartbeat(ctx, status)
			if after := r.Count(); after != before {
				changed(before, after)
			}
			next.Reset(r.interval - r.interval/10 + mathrand.N(r.interval/5+1)) // random, so that gateways that start together do not stay in step
		}
	}
}

// heartbeat sends the status and a heartbeat, and updates the count. They are two commands of one pipeline, because their keys may be on
// different servers of a cluster. The status is first: a gateway that is counted has a status.
func (r *Replicas) heartbeat(ctx context.Context, status func() []byte) {
	callCtx, cancel := r.callContext(ctx)
	defer cancel()
	expiry := missedHeartbeats * r.interval.Milliseconds()
	pipe := r.client.Pipeline()
	written := r.queueStatus(callCtx, pipe, status)
	beat := pipe.Eval(callCtx, replicasLua, []string{r.key}, r.id, expiry)
	_, _ = pipe.Exec(callCtx) // each command has its error
	r.reportStatus(written)
	counted, err := beat.Int()
	if err != nil {
		r.beats.Store(0)
		if !r.failing {
			r.logger.Warn("gateways cannot be counted: the last count is kept", slog.Int("replicas", r.Count()), slog.Any("error", err))
		}
		r.failing, r.recent = true, nil
		return
	}
	r.failing = false
	r.beats.Add(1)
	r.update(counted)
}

// update raises the count at once, and lowers it only after steadyHeartbeats lower counts, to the largest of them.
func (r *Replicas) update(counted int) {
	r.recent = append(r.recent, max(1, counted))
	r.recent = r.recent[max(0, len(r.recent)-steadyHeartbeats):]
	before, after := r.Count(), slices.Max(r.recent)
	if after == before || after < before && len(r.recent) < steadyHeartbeats {
		return
	}
	r.logger.Info("number of gateways changed", slog.Int("old", before), slog.Int("new", after))
	r.count.Store(int64(after))
}

// unregister removes this gateway from the count. If the call fails, the gateway is not counted after three intervals.
func (r *Replicas) unregister(ctx context.Context, reported bool) {
	callCtx, cancel := r.callContext(ctx)
	defer cancel()
	pipe := r.client.Pipeline()
	removed := pipe.ZRem(callCtx, r.key, r.id)
	if reported {
		pipe.HDel(callCtx, r.peersKey, r.id)
	}
	_, _ = pipe.Exec(callCtx) // a status that is not removed expires
	if err := removed.Err(); err != nil {
		r.logger.Debug("this gateway is counted for some seconds more", slog.Any("error", err))
	}
}

// callContext returns a context for one call. It does not end with ctx, as canceling a call closes its connection.
func (r *Replicas) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
}
