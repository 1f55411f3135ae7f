package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opsgate/ratelimit"
)

const defaultPrefix = "opsgate:"

// Options are what a Store is made of.
type Options struct {
	Client redis.UniversalClient // made by [NewClient]; its owner closes it
	Prefix string                // of all keys and of the channel; "" for "opsgate:"

	// Clock is nil for the Redis server's. Tests that move time hand it in; then accounts do not expire.
	Clock func() time.Time

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Exemplar returns labels that lead from the duration of a call to where more is known of it, or nil; none by default.
	Exemplar func(ctx context.Context) prometheus.Labels
}

// A Store keeps budgets in a Redis that gateways share. It is safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	timeout time.Duration
	keys    string // prefix of the tokens' keys
	channel string // where tokens are named that may be admitted sooner than they were told
	clock   func() time.Time
	start   time.Time // of the local clock
	logger  *slog.Logger
	metrics *metrics

	decideScript, refundScript, settleScript script

	plans    plans
	refusals *refusals

	pingKey  string
	pingPlan *plan
	pings    atomic.Uint32
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store. It asks Redis nothing yet.
func New(o Options) (*Store, error) {
	if o.Client == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("redis: a store needs a client, a logger and a registerer")
	}
	m, err := newMetrics(o.Registerer, o.Exemplar)
	if err != nil {
		return nil, err
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	s := &Store{
		client: o.Client, timeout: timeoutOf(o.Client), keys: o.Prefix + "limits:", channel: o.Prefix + "freed", clock: o.Clock,
		logger: o.Logger, metrics: m, refusals: newRefusals(), pingKey: o.Prefix + "ping:",
		decideScript: newScript(decideLua), refundScript: newScript(refundLua), settleScript: newScript(settleLua),
	}
	s.plans.expire = o.Clock == nil
	s.start = s.localTime()
	always, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "ping", Requests: 1_000_000, Per: time.Second}})
	if err != nil {
		return nil, err
	}
	s.pingPlan = newPlan(always, s.plans.expire)
	return s, nil
}

func (s *Store) localTime() time.Time {
	if s.clock != nil {
		return s.clock()
	}
	return time.Now()
}

// now is the local time, which refusals are counted down by.
func (s *Store) now() time.Duration {
	if s.clock != nil {
		return s.clock().Sub(s.start)
	}
	return time.Since(s.start)
}

// scriptTime is the time that scripts are told: none where they ask the server.
func (s *Store) scriptTime() any {
	if s.clock == nil {
		return ""
	}
	return s.clock().UnixMicro()
}

// bounded returns a context for one operation, which may take no longer than the client's time-out. It does not end with the
// request: what was sent is executed anyway, and a call that is given up costs its connection.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
}

// Decide implements [ratelimit.Store]. A refusal that still holds is repeated without asking Redis.
func (s *Store) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	asked := s.now()
	var d ratelimit.Decision
	repeated, mark := s.refusals.find(tokenID, p, asked, &d)
	if repeated {
		return d, nil
	}
	d, err := s.ask(ctx, &s.metrics.decide, s.keys+tokenID, s.plans.of(p), "")
	if err != nil {
		return d, fmt.Errorf("deciding by redis: %w", err)
	}
	if !d.Allowed {
		s.refusals.keep(tokenID, p, &d, asked, mark)
	}
	return d, nil
}

// Peek implements [ratelimit.Store].
func (s *Store) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	d, err := s.ask(ctx, &s.metrics.peek, s.keys+tokenID, s.plans.of(p), "p")
	if err != nil {
		return d, fmt.Errorf("peeking at redis: %w", err)
	}
	return d, nil
}

// ask runs decide.lua.
func (s *Store) ask(ctx context.Context, m *durations, key string, pl *plan, mode any) (ratelimit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Decision{}, err
	}
	start := time.Now()
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	answer, err := s.run(bounded, &s.decideScript,
		[]any{"evalsha", s.decideScript.hash, "1", key, pl.signature, pl.form, pl.numbers, pl.answer, pl.ttl, s.scriptTime(), mode})
	m.observe(ctx, start, err)
	if err != nil {
		return ratelimit.Decision{}, err
	}
	return pl.decision(answer)
}

// Refund implements [ratelimit.Store].
func (s *Store) Refund(ctx context.Context, tokenID string, _ *ratelimit.Policy, d ratelimit.Decision) error {
	if !d.Allowed || d.Serial == 0 {
		return nil
	}
	inShadow := ""
	if d.Shadowed < 0 {
		inShadow = "s"
	}
	start := time.Now()
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	_, err := s.run(bounded, &s.refundScript, s.refundScript.args(s.keys+tokenID,
		strconv.FormatUint(d.Serial, 10), strconv.FormatInt(d.At.UnixMicro(), 10), inShadow, s.scriptTime(), s.channel, tokenID))
	s.metrics.refund.observe(ctx, start, err)
	s.refusals.drop(tokenID)
	if err != nil {
		return fmt.Errorf("giving back to redis: %w", err)
	}
	return nil
}

// Reset implements [ratelimit.Store].
func (s *Store) Reset(ctx context.Context, tokenID string) error {
	start := time.Now()
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	err := s.client.Del(bounded, s.keys+tokenID).Err()
	if err == nil {
		err = s.client.Publish(bounded, s.channel, tokenID).Err()
	}
	s.metrics.reset.observe(ctx, start, err)
	s.refusals.drop(tokenID)
	if err != nil {
		return fmt.Errorf("resetting in redis: %w", err)
	}
	return nil
}

// pingKeys are spread over a cluster, so that one after the other its servers are asked.
const pingKeys = 16

// Ping says whether decisions can be had: it makes one, for nobody.
func (s *Store) Ping(ctx context.Context) error {
	key := s.pingKey + strconv.Itoa(int(s.pings.Add(1)%pingKeys))
	d, err := s.ask(ctx, &s.metrics.ping, key, s.pingPlan, "")
	switch {
	case err != nil:
		return fmt.Errorf("asking redis: %w", err)
	case !d.Allowed:
		return errors.New("asking redis: refused a request that nothing limits")
	}
	return nil
}
