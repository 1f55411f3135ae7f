package redisstore

import (
	"cmp"
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
	"opsgate/ratelimit/redisclient"
)

// Channel is where refunds and resets are published, after the prefix of all keys.
const Channel = "refunds"

const (
	defaultPrefix = "opsgate:"
	warnEvery     = time.Minute // interval of warnings about values that are not accounts
)

// Options are the options of a Store. Client, Logger and Registerer are required.
type Options struct {
	Client *redisclient.Client // its owner closes it
	Prefix string              // of all keys and of the channel; "" for "opsgate:"

	// Clock is for tests that advance time; accounts do not expire then. nil for the clock of the
	// Redis server.
	Clock func() time.Time

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Hook       redis.Hook // called for each call of the script, also of those that share a pipeline; nil for none
	// Exemplar returns the labels of an exemplar for the duration of a call, or nil; none by
	// default.
	Exemplar func(ctx context.Context) prometheus.Labels
}

// A Store keeps accounts in a Redis that gateways share. It is safe for concurrent use.
type Store struct {
	client *redisclient.Client
	// of the tokens' keys, with the format version of accounts: gateways of two versions use
	// separate keys
	keyPrefix  string
	channel    string // where refunded and reset tokens are published
	clock      func() time.Time
	lastsAfter time.Duration
	subscribed atomic.Bool
	lasts      atomic.Bool // the subscription has existed for lastsAfter
	logger     *slog.Logger
	metrics    *metrics
	warned     atomic.Int64 // time of the last warning about a value that is not an account, ns since 1970

	scriptHash string
	process    redis.ProcessHook // sends a call of the script

	pingKey    string
	pingPolicy *ratelimit.Policy
	pings      atomic.Uint32
}

var _ ratelimit.Store = (*Store)(nil)

// AccountPrefix returns the prefix of the keys of accounts: the prefix of all keys, and the format
// version of accounts.
func AccountPrefix(prefix string) string { return prefix + "account:3:" }

// New returns a store. It does not connect to Redis yet.
func New(o Options) (*Store, error) {
	if o.Client == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("redis: a store needs a client, a logger and a registerer")
	}
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	ping, err := ratelimit.NewPolicy([]ratelimit.Limit{{Name: "ping", Requests: 1_000_000, Per: time.Second}})
	if err != nil {
		return nil, err
	}
	s := &Store{
		client: o.Client, keyPrefix: AccountPrefix(o.Prefix), channel: o.Prefix + Channel, clock: o.Clock,
		lastsAfter: lastsAfter, logger: o.Logger, scriptHash: redis.NewScript(script).Hash(),
		pingKey: AccountPrefix(o.Prefix + "ping:"), pingPolicy: ping,
	}
	if s.process = o.Client.ProcessCall; o.Hook != nil {
		s.process = o.Hook.ProcessHook(o.Client.ProcessCall)
	}
	s.metrics, err = s.newMetrics(o.Registerer, o.Exemplar)
	return s, err
}

// scriptTime returns the time argument of the script; "" for the server's time.
func (s *Store) scriptTime() any {
	if s.clock == nil {
		return ""
	}
	return s.clock().UnixMicro()
}

// Exchange executes an operation on the token's account in Redis, by one call that is executed at
// most once. It returns the decision, and the account after it, which the caller may keep. The
// decision of [ratelimit.OpUpload] is that of a peek. After an error other than
// [ratelimit.ErrNotExecuted], Redis may have executed the call. It does not end with ctx. A request
// that the policy blocks makes no call, and has no account.
func (s *Store) Exchange(
	ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	if d, blocked := p.Blocked(time.Now()); blocked {
		return d, nil, nil
	}
	operation := [...]string{ratelimit.OpDecide: "decide", ratelimit.OpPeek: "peek", ratelimit.OpUpload: "upload"}[x.Op]
	return s.decide(ctx, operation, s.keyPrefix+tokenID, p, operation, s.scriptTime(), p.Encoded(), []byte(x.Upload))
}

// decide runs the script for an operation that returns a decision, and measures it by its name in
// metrics.
func (s *Store) decide(
	ctx context.Context, name, key string, p *ratelimit.Policy, args ...any,
) (ratelimit.Decision, ratelimit.Account, error) {
	start := time.Now()
	callCtx, cancel := s.client.CallContext(ctx)
	defer cancel()
	answer, err := s.run(callCtx, key, args...)
	s.metrics.observe(ctx, name, start, err)
	if err != nil {
		return ratelimit.Decision{}, nil, fmt.Errorf("redis: %s: %w", name, err)
	}
	d, a, discarded, err := decode(answer, p)
	if discarded {
		s.reportDiscarded(ctx)
	}
	if err != nil {
		return ratelimit.Decision{}, nil, fmt.Errorf("redis: %s: %w", name, err)
	}
	return d, a, nil
}

// reportDiscarded counts a value that was not an account, and logs it at most once a minute,
// without the value and the token.
func (s *Store) reportDiscarded(ctx context.Context) {
	s.metrics.discarded.Inc()
	now, last := time.Now().UnixNano(), s.warned.Load()
	if now-last >= int64(warnEvery) && s.warned.CompareAndSwap(last, now) {
		s.logger.WarnContext(ctx,
			"the value of a token's key in redis is not an account: it is replaced, and the token's usage starts at zero")
	}
}

// Decide implements [ratelimit.Store].
func (s *Store) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	d, _, err := s.Exchange(ctx, tokenID, p, ratelimit.Exchange{Op: ratelimit.OpDecide})
	return d, err
}

// Peek implements [ratelimit.Store].
func (s *Store) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	d, _, err := s.Exchange(ctx, tokenID, p, ratelimit.Exchange{Op: ratelimit.OpPeek})
	return d, err
}

// Refund implements [ratelimit.Store].
func (s *Store) Refund(ctx context.Context, tokenID string, d ratelimit.Decision) error {
	if !d.Allowed {
		return nil
	}
	start := time.Now()
	callCtx, cancel := s.client.CallContext(ctx)
	defer cancel()
	_, err := s.run(callCtx, s.keyPrefix+tokenID, "refund", s.scriptTime(), d.At.UnixMicro(), s.channel, tokenID)
	s.metrics.observe(ctx, "refund", start, err)
	if err != nil {
		return fmt.Errorf("redis: refund: %w", err)
	}
	return nil
}

// Reset implements [ratelimit.Store]. A token that cannot be published is reset nevertheless.
func (s *Store) Reset(ctx context.Context, tokenID string) error {
	start := time.Now()
	callCtx, cancel := s.client.CallContext(ctx)
	defer cancel()
	err := s.client.Del(callCtx, s.keyPrefix+tokenID).Err()
	s.metrics.observe(ctx, "reset", start, err)
	if err != nil {
		return fmt.Errorf("redis: reset: %w", err)
	}
	if err := s.client.Publish(callCtx, s.channel, resetMessage+tokenID).Err(); err != nil {
		s.logger.WarnContext(ctx, "the reset of a token is not known to other gateways", "token_id", tokenID, "error", err)
	}
	return nil
}

// pingKeys is the number of keys of pings. They are spread over the servers of a cluster.
const pingKeys = 16

// Ping decides and records a request on an account for pings. It fails if the store cannot do so.
func (s *Store) Ping(ctx context.Context) error {
	key := s.pingKey + strconv.Itoa(int(s.pings.Add(1)%pingKeys))
	d, _, err := s.decide(ctx, "ping", key, s.pingPolicy, "decide", s.scriptTime(), s.pingPolicy.Encoded(), "")
	if err == nil && !d.Allowed {
		return errors.New("redis: ping: a request within its limit was denied")
	}
	return err
}
