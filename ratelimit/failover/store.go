package failover

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
)

// Shared is a store of rate limits that gateways share. Each of its calls has a time-out of its own, and is not retried.
type Shared interface {
	// Exchange uploads accounts and asks. It returns the decision, and the account after it, which the caller keeps. Of
	// [ratelimit.OpMerge], only the decision's time is used. It must not modify or keep the accounts passed.
	Exchange(ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange) (ratelimit.Decision, ratelimit.Account, error)

	// Refund is as in [ratelimit.Store].
	Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error

	// Reset is as in [ratelimit.Store].
	Reset(ctx context.Context, tokenID string) error

	// Ping fails unless the store can decide and record.
	Ping(ctx context.Context) error
}

// Options are the options of a Store. Shared, Logger and Registerer are required.
type Options struct {
	Shared     Shared
	Settings   Settings
	Subscribed func() bool      // whether all that voids a denial is reported to [Store.DropDenial]; nil for always
	Clock      func() time.Time // nil for time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Store asks the shared store, and decides by itself while that is not in use. It is safe for concurrent use.
type Store struct {
	shared     Shared
	subscribed func() bool
	clock      func() time.Time
	start      time.Time
	logger     *slog.Logger
	metrics    *metrics
	configured atomic.Pointer[Settings]

	breaker   *gobreaker.CircuitBreaker[struct{}]
	breakerIs atomic.Int32
	inARow    atomic.Int32          // failures without a success in between; the breaker drops those older than breakerWindow
	cause     atomic.Pointer[error] // of the last failure
	outage    chan struct{}         // wakes Run when an outage begins
	nextProbe atomic.Int64          // Unix time in nanoseconds

	phase       atomic.Pointer[phase]
	phaseMu     sync.Mutex // held while the phase is replaced, and for the next three
	began       time.Time  // the last outage
	firstBegan  time.Time  // the first outage since the shared store was steady; zero for none
	lastFailure time.Time

	ahead  atomic.Int64 // µs that the shared store's clock, as of its last answer, is ahead of now
	seed   maphash.Seed
	shards [shards]shard
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store that uses the shared one, and has not called it yet. [Store.Run] must run beside it.
func New(o Options) (*Store, error) {
	if o.Shared == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("failover: a store needs a shared one, a logger and a registerer")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Subscribed == nil {
		o.Subscribed = func() bool { return true }
	}
	s := &Store{
		shared: o.Shared, subscribed: o.Subscribed, clock: o.Clock, start: o.Clock(), logger: o.Logger,
		outage: make(chan struct{}, 1), seed: maphash.MakeSeed(),
	}
	s.phase.Store(&phase{since: s.start, pause: math.MinInt64})
	s.ahead.Store(s.start.UnixMicro())
	for i := range s.shards {
		s.shards[i].tokens = make(map[string]*token)
	}
	s.Configure(o.Settings)
	s.breaker = s.newBreaker()
	var err error
	s.metrics, err = s.newMetrics(o.Registerer)
	return s, err
}

// Configure replaces the settings. Usage stays counted.
func (s *Store) Configure(settings Settings) {
	settings = settings.withDefaults()
	s.configured.Store(&settings)
}

// A request is a decision or a peek to be made.
type request struct {
	tokenID string
	policy  *ratelimit.Policy
	op      ratelimit.Op
}

// Decide implements [ratelimit.Store]. It fails in [ratelimit.ModeDeny] only, with a *[ratelimit.UnavailableError].
func (s *Store) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.answer(ctx, request{tokenID, p, ratelimit.OpDecide})
}

// Peek implements [ratelimit.Store]. It fails as Decide does.
func (s *Store) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.answer(ctx, request{tokenID, p, ratelimit.OpPeek})
}

// answer is the whole of a token's state machine.
func (s *Store) answer(ctx context.Context, r request) (ratelimit.Decision, error) {
	ph, now := s.phase.Load(), s.now()
	sh := s.shard(r.tokenID)
	sh.mu.Lock()
	t := sh.token(r.tokenID, ph.epoch)
	var c call
	switch t.state(ph, now) {
	case shared:
		if d, holds := sh.denial(t, r.policy, now, s.subscribed); holds {
			sh.mu.Unlock()
			return d, nil
		}
		c = t.ask(r.op, ph, now)
	case local:
		defer sh.mu.Unlock()
		return s.decide(t, r, ph.cause, false)
	case syncing:
		switch {
		case now < ph.pause: // other gateways may have admissions to upload
			d, err := s.decide(t, r, errPause, false)
			if t.uploading || now < t.nextUpload || t.epoch == ph.epoch && t.own == nil {
				sh.mu.Unlock()
				return d, err
			}
			c = t.upload(ratelimit.OpMerge, r.policy, ph, now, s.sharedTime(now))
			sh.mu.Unlock()
			_, _ = s.exchange(ctx, sh, t, r, &c) // else the next request uploads
			return d, err
		case t.uploading:
			c = t.ask(r.op, ph, now)
			c.complete = false
		default:
			c = t.upload(r.op, r.policy, ph, now, s.sharedTime(now))
		}
	}
	sh.mu.Unlock()
	return s.exchange(ctx, sh, t, r, &c)
}

var errPause = errors.New("the shared store is in use again, and other gateways may not have uploaded what they admitted")

// exchange makes a call. If it fails, this gateway decides, unless there is nothing to decide.
func (s *Store) exchange(ctx context.Context, sh *shard, t *token, r request, c *call) (d ratelimit.Decision, err error) {
	if c.uploads {
		ctx = context.WithoutCancel(ctx) // the upload matters to other requests, too
	}
	var a ratelimit.Account
	err = s.call(ctx, func() (err error) {
		d, a, err = s.shared.Exchange(ctx, r.tokenID, r.policy, c.Exchange)
		return err
	})
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err != nil {
		arrived := mayHaveArrived(err)
		t.failed(c, r.policy, arrived, s.sharedTime(s.now()))
		if c.Op == ratelimit.OpMerge {
			return d, err
		}
		return s.decide(t, r, err, arrived)
	}
	if c.uploads {
		s.metrics.settled.Inc()
	}
	t.answered(c, r.policy, &d, a, s.phase.Load())
	s.observe(d.At.UnixMicro() - c.asked.Microseconds())
	return d, nil
}

// decide decides a request in place of the shared store, for the cause. The shared store may have counted it all the same.
func (s *Store) decide(t *token, r request, cause error, counted bool) (ratelimit.Decision, error) {
	c := s.configured.Load()
	switch c.Mode {
	case ratelimit.ModeDeny:
		return ratelimit.Decision{}, s.unavailable(cause)
	case ratelimit.ModeAllow:
		return s.admit(r.policy), nil
	}
	at := s.sharedTime(s.now())
	of := ratelimit.Share{Replicas: c.Replicas, Shared: t.account, Sent: join(r.policy, t.sent, t.sending, at)}
	if !counted || r.op == ratelimit.OpPeek {
		own, d := r.policy.DecideShare(of, t.own, at, r.op == ratelimit.OpPeek)
		if t.own != nil || d.Allowed && r.op != ratelimit.OpPeek {
			t.own = own
		}
		return d, nil
	}
	_, d := r.policy.DecideShare(of, bytes.Clone(t.own), at, false)
	if d.Allowed {
		t.record(r.policy, at)
	}
	return d, nil
}

// admit returns the decision on a request that is not counted.
func (s *Store) admit(p *ratelimit.Policy) ratelimit.Decision {
	d := ratelimit.Decision{Allowed: true, Denied: -1, Shadowed: -1, At: s.clock(), Local: true}
	for i, l := range p.Limits() {
		d.Budgets[i].Remaining = l.Requests
	}
	return d
}

// Refund implements [ratelimit.Store]. It takes the admission out of what this gateway keeps, and out of the shared store where that has
// it. A refund that the shared store cannot do is lost, which is counted and is no error.
// What this gateway admitted by itself in another mode than [ratelimit.ModeLocal] was not counted.
func (s *Store) Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error {
	if !d.Allowed || d.Local && (s.configured.Load().Mode != ratelimit.ModeLocal || !s.isShared(tokenID, &d)) {
		return nil
	}
	err := s.unlessAway(ctx, func() error { return s.shared.Refund(ctx, tokenID, p, d) })
	if err != nil {
		s.metrics.refunds.Inc()
		s.logger.DebugContext(ctx, "a refund was lost", slog.String("token_id", tokenID), slog.Any("cause", err))
	}
	s.visit(tokenID, func(t *token) { // after the call: a denial that was decided before must not be kept
		t.void()
		_ = take(&t.sent, &d) || take(&t.account, &d)
	})
	return nil
}

// isShared reports whether the shared store may have an admission of this gateway. One that was not uploaded is taken out here, and so is
// one in an upload that has not ended, which would be made again if it fails.
func (s *Store) isShared(tokenID string, d *ratelimit.Decision) (is bool) {
	s.visit(tokenID, func(t *token) {
		sent, account := t.sent, t.account
		is = !take(&t.own, d) && (take(&t.sending, d) || take(&sent, d) || take(&account, d))
	})
	return is
}

// Reset implements [ratelimit.Store]. While the shared store is not in use, it drops what this gateway keeps and fails with a
// *[ratelimit.UnavailableError], as what the shared store has will count again.
func (s *Store) Reset(ctx context.Context, tokenID string) error {
	s.drop(tokenID)
	if err := s.unlessAway(ctx, func() error { return s.shared.Reset(ctx, tokenID) }); err != nil {
		return s.unavailable(err)
	}
	s.drop(tokenID) // what was decided meanwhile
	return nil
}

// drop drops what is kept of a token. Calls in flight end on what was dropped.
func (s *Store) drop(tokenID string) {
	sh := s.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.tokens, tokenID)
}

// DropDenial reports that a token may be admitted earlier than it was told: a gateway gave an admission back, or the token was reset. With
// "", that may be so for all tokens.
func (s *Store) DropDenial(tokenID string) {
	if tokenID != "" {
		s.visit(tokenID, (*token).void)
		return
	}
	for i := range s.shards {
		s.shards[i].visitAll(func(_ string, t *token) { t.void() })
	}
}

// sweep drops tokens without usage.
func (s *Store) sweep() {
	at, replicas := s.sharedTime(s.now()), s.configured.Load().Replicas
	for i := range s.shards {
		sh := &s.shards[i]
		sh.visitAll(func(id string, t *token) {
			if t.unused(at, replicas) {
				delete(sh.tokens, id)
			}
		})
	}
}

func (sh *shard) visitAll(visit func(id string, t *token)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for id, t := range sh.tokens {
		visit(id, t)
	}
}

// visit visits a token if it is kept.
func (s *Store) visit(tokenID string, visit func(*token)) {
	sh := s.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t, kept := sh.tokens[tokenID]; kept {
		visit(t)
	}
}

func (s *Store) shard(tokenID string) *shard {
	return &s.shards[maphash.String(s.seed, tokenID)%shards]
}

// now is the time since the store was made. It is monotonic where the clock is.
func (s *Store) now() time.Duration { return s.clock().Sub(s.start) }

// sharedTime estimates the time by the shared store's clock.
func (s *Store) sharedTime(now time.Duration) time.Time {
	return time.UnixMicro(now.Microseconds() + s.ahead.Load())
}

// observe records how far the shared store's clock is ahead of now, to the millisecond: written with each answer, it would slow all cores.
func (s *Store) observe(ahead int64) {
	if off := ahead - s.ahead.Load(); off < -1000 || off > 1000 {
		s.ahead.Store(ahead)
	}
}

func (s *Store) unavailable(cause error) error {
	return &ratelimit.UnavailableError{RetryAfter: s.retryAfter(), Cause: cause}
}
