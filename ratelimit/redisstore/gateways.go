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

	// steadyHeartbeats is the number of consecutive heartbeats with fewer gateways after which the count is lowered. They begin again when
	// Redis has lost the set, so a gateway that is not counted any more has missed as many heartbeats.
	steadyHeartbeats = 3
)

// CountedFor is how long after its last heartbeat a gateway is counted, with the default interval.
const CountedFor = missedHeartbeats * defaultInterval

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
	members   atomic.Pointer[Members]
	beats     atomic.Int64          // consecutive successful heartbeats
	statusErr atomic.Pointer[error] // of the last write of the status

	evicting, evictedKeys atomic.Int64 // see Eviction

	// Used by Run alone.
	lower   []int            // the last counts, if each was lower than count
	failing bool             // the last heartbeat failed
	missed  int              // consecutive failed heartbeats
	cleaned bool             // old statuses were removed
	evicted map[string]int64 // keys that each process of Redis had evicted, as last read
	refused bool             // the last read of them
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
		evicted: make(map[string]int64),
	}
	r.count.Store(1)
	r.statusErr.Store(new(error))
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_rate_limit_replicas",
			Help: "Gateways that share the Redis, this one included, by their heartbeats; kept during an outage.",
		}, func() float64 { return float64(r.Count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_rate_limit_redis_evicting_servers",
			Help: "Redis servers whose maxmemory-policy evicts keys; 0 if the gateway may not read it.",
		}, func() float64 { return float64(r.evicting.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_redis_evicted_keys_total",
			Help: "Keys that the Redis servers evicted, of any program, since the gateway first read their number.",
		}, func() float64 { return float64(r.evictedKeys.Load()) }),
	} {
		if err := o.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the gateways and of Redis: %w", err)
		}
	}
	return r, nil
}

// Count returns the number of gateways, at least 1. It does not change during outages of Redis.
func (r *Replicas) Count() int { return int(r.count.Load()) }

// maxMembers bounds the ids of [Members].
const maxMembers = 64

// Members are the gateways in the set of heartbeats.
type Members struct {
	Count int      // 0 if they are not known
	IDs   []string // in ascending order, at most 64; none if the user of Redis may not read them
}

// Members returns the gateways, as Count does with their number, but they are not known before the first heartbeat, and when three have
// failed: another gateway may have started since.
func (r *Replicas) Members() Members {
	if m := r.members.Load(); m != nil {
		return *m
	}
	return Members{}
}

// Run sends heartbeats with the status of this gateway, at most [MaxStatus] bytes, the first one at once, until ctx ends. Then it removes
// this gateway from the count, within the timeout of a call, and returns nil. It calls changed after each change of the count.
func (r *Replicas) Run(ctx context.Context, status func() []byte, changed func(before, after int)) error {
	defer r.unregister(ctx)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			before := r.Count()
			r.heartbeat(ctx, status())
			if after := r.Count(); after != before {
				changed(before, after)
			}
			next.Reset(r.interval - r.interval/10 + mathrand.N(r.interval/5+1)) // random, so that gateways that start together do not stay in step
		}
	}
}

// sendHeartbeat sends the status and a heartbeat, and reads the gateways. They are commands of one pipeline, because their keys may be on
// different servers of a cluster. The status is first: a gateway that is counted has a status.
func (r *Replicas) sendHeartbeat(ctx context.Context, status []byte) (written, beat *redis.Cmd, ids *redis.StringSliceCmd) {
	callCtx, cancel := r.callContext(ctx)
	defer cancel()
	kept := missedHeartbeats * r.interval.Milliseconds()
	pipe := r.client.Pipeline()
	written = r.queueStatus(callCtx, pipe, status)
	beat = pipe.Eval(callCtx, replicasLua, []string{r.key}, r.id, kept)
	ids = pipe.ZRange(callCtx, r.key, 0, maxMembers-1)
	_, _ = pipe.Exec(callCtx) // each command has its error
	return written, beat, ids
}

// heartbeat sends a heartbeat, and updates the count.
func (r *Replicas) heartbeat(ctx context.Context, status []byte) {
	written, beat, ids := r.sendHeartbeat(ctx, status)
	r.reportStatus(written.Err())
	answer, err := beat.Int64Slice()
	if err != nil || len(answer) != 2 {
		r.beats.Store(0)
		if !r.failing {
			r.logger.Warn("gateways cannot be counted: the last count is kept", slog.Int("replicas", r.Count()), slog.Any("error", err))
		}
		r.failing, r.lower = true, nil
		if r.missed++; r.missed >= missedHeartbeats {
			r.members.Store(nil)
		}
		return
	}
	r.failing, r.missed = false, 0
	counted := int(answer[0])
	r.update(counted, answer[1] != 0)
	if counted >= r.Count() { // else Redis may have lost the set, and gateways that were in it still run
		r.members.Store(membersOf(counted, ids.Val()))
	}
	if r.beats.Add(1)%evictionEvery == 1 {
		_ = r.readEviction(ctx) // limits do not depend on it
	}
}

func membersOf(count int, ids []string) *Members {
	ids = slices.DeleteFunc(ids, func(id string) bool { return len(id) > maxIDLength })
	slices.Sort(ids)
	return &Members{Count: max(count, len(ids)), IDs: ids}
}

// update raises the count at once, and lowers it only after steadyHeartbeats lower counts in a row, to the largest of them. If Redis has
// lost the set since the last heartbeat, the other gateways may not be in it yet: a lower count begins such a row with the next heartbeat.
func (r *Replicas) update(counted int, lost bool) {
	before, after := r.Count(), counted
	switch {
	case counted == before, counted < before && lost:
		r.lower = nil
		return
	case counted < before:
		if r.lower = append(r.lower, counted); len(r.lower) < steadyHeartbeats {
			return
		}
		after = slices.Max(r.lower)
	}
	r.lower = nil
	r.logger.Info("number of gateways changed", slog.Int("old", before), slog.Int("new", after))
	r.count.Store(int64(after))
}

// unregister removes this gateway from the count. If the call fails, the gateway is not counted after three intervals.
func (r *Replicas) unregister(ctx context.Context) {
	callCtx, cancel := r.callContext(ctx)
	defer cancel()
	pipe := r.client.Pipeline()
	removed := pipe.ZRem(callCtx, r.key, r.id)
	pipe.HDel(callCtx, r.peersKey, r.id)
	_, _ = pipe.Exec(callCtx) // a status that is not removed expires
	if err := removed.Err(); err != nil {
		r.logger.Debug("this gateway is counted for some seconds more", slog.Any("error", err))
	}
}

// callContext returns a context for one call. It does not end with ctx, as canceling a call closes its connection.
func (r *Replicas) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
}
