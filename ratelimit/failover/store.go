package failover

import (
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

// Shared is a rate limit store that gateways share. Its calls have their own timeouts, and are not retried.
type Shared interface {
	// Exchange executes an operation. It returns the decision, and the account after it, which the caller keeps. For [ratelimit.OpMerge],
	// the caller uses only the time of the decision. Exchange must not modify or keep the accounts passed, nor end with ctx: an error is a
	// failure of the store, unless it contains [ratelimit.ErrOtherCalls]. It contains [ratelimit.ErrNotSent] if the store has not received
	// the call.
	Exchange(ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange) (ratelimit.Decision, ratelimit.Account, error)

	// Refund is as in [ratelimit.Store].
	Refund(ctx context.Context, tokenID string, d ratelimit.Decision) error

	// Reset is as in [ratelimit.Store].
	Reset(ctx context.Context, tokenID string) error

	// Ping fails unless the store can decide and record a request.
	Ping(ctx context.Context) error
}

// Options are the options of a Store. Shared, Logger and Registerer are required.
type Options struct {
	Shared      Shared
	CallTimeout time.Duration // of the calls of Shared: a request with less time until its deadline makes none
	Settings    Settings
	Subscribed  func() bool      // reports whether DropDenial is called for refunds and resets by other gateways; nil for always
	Clock       func() time.Time // nil for time.Now
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
}

// A Store decides by the shared store, or by itself while the shared store is not in use. It is safe for concurrent use.
type Store struct {
	shared      Shared
	callTimeout time.Duration
	subscribed  func() bool
	clock       func() time.Time
	start       time.Time // of New
	logger      *slog.Logger
	metrics     *metrics
	configured  atomic.Pointer[Settings]

	breaker        *gobreaker.CircuitBreaker[struct{}]
	breakerCurrent atomic.Int32          // gobreaker.State
	failuresInARow atomic.Int32          // failures and stalls since the last success, however old
	cause          atomic.Pointer[error] // of the last failure with an error
	outageBegan    chan struct{}         // wakes Run
	nextProbe      atomic.Int64          // Unix time in ns

	state            atomic.Pointer[storeState]
	stateMu          sync.Mutex // held while the state is replaced; guards the next four fields
	outageStart      time.Time  // start of the last outage
	firstOutageStart time.Time  // start of the first outage since the shared store was steady; zero for none
	lastFailure      time.Time
	lastStallEnd     time.Duration // end of the last call that recordStall counted, by Store.now

	stalls         stallWatch
	sharedClock    sharedClock
	lastDifference time.Duration // between the clocks, as last reported; used by Run alone
	seed           maphash.Seed
	shards         [shards]shard
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store. It does not call the shared store yet. [Store.Run] must run beside the requests.
func New(o Options) (*Store, error) {
	if o.Shared == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("failover: a store needs a shared store, a logger and a registerer")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Subscribed == nil {
		o.Subscribed = func() bool { return true }
	}
	s := &Store{
		shared: o.Shared, callTimeout: o.CallTimeout, subscribed: o.Subscribed, clock: o.Clock, start: o.Clock(), logger: o.Logger,
		outageBegan: make(chan struct{}, 1), seed: maphash.MakeSeed(),
	}
	s.state.Store(&storeState{since: s.start, pausedUntil: math.MinInt64})
	panicked := errors.New("calls of it panicked") // the initial cause: recordFailure, which sets it, does not see panics
	s.cause.Store(&panicked)
	s.sharedClock.offset.Store(s.start.UnixMicro())
	s.stalls.now, s.stalls.tick = s.now, stallTick
	for i := range s.shards {
		s.shards[i].tokens = make(map[string]*token)
	}
	s.Configure(o.Settings)
	s.breaker = s.newBreaker()
	var err error
	s.metrics, err = s.newMetrics(o.Registerer)
	return s, err
}

// Configure replaces the settings. Usage is kept.
func (s *Store) Configure(settings Settings) {
	settings = settings.withDefaults()
	s.configured.Store(&settings)
}

// A request is a request for a decision or a peek.
type request struct {
	tokenID  string
	policy   *ratelimit.Policy
	op       ratelimit.Op
	repeated bool // this is its second call
}

// Decide implements [ratelimit.Store]. It fails in [ratelimit.ModeDeny] only, with a *[ratelimit.UnavailableError].
func (s *Store) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.serve(ctx, request{tokenID: tokenID, policy: p, op: ratelimit.OpDecide})
}

// Peek implements [ratelimit.Store]. It fails as Decide does.
func (s *Store) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.serve(ctx, request{tokenID: tokenID, policy: p, op: ratelimit.OpPeek})
}

// serve runs the state machine of a token for one request.
func (s *Store) serve(ctx context.Context, r request) (ratelimit.Decision, error) {
	c, d, err := s.begin(r)
	switch {
	case c.token == nil: // decided without a call
		return d, err
	case c.Op == ratelimit.OpMerge: // decided before the call, which uploads
		_, _ = s.makeCall(ctx, &c) // if it fails, the next request uploads
		return d, err
	default:
		d, err = s.makeCall(ctx, &c)
		if r.mustRepeat(err) {
			r.repeated = true
			return s.serve(ctx, r)
		}
		return d, err
	}
}

var errPause = errors.New("the shared store is in use again, and other gateways may still have admissions to upload")

// begin decides a request and returns no call, or begins a call that decides it and returns no decision. During the pause, it decides the
// request, and may also begin a call that uploads.
func (s *Store) begin(r request) (c call, d ratelimit.Decision, err error) {
	st, now := s.state.Load(), s.now()
	at := s.sharedClock.at(now)
	sh := s.shard(r.tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t, ok := sh.tokens[r.tokenID]
	if !ok {
		t = &token{epoch: st.epoch} // the shared store lacks nothing of a new token
		sh.tokens[r.tokenID] = t
	}
	switch t.state(st, now) {
	case stateShared:
		if d, ok := sh.denial(t, r.policy, at, s.subscribed); ok {
			return c, d, nil
		}
		t.epoch = st.epoch // if they differ, the token has no account that may be lost
		c = t.newCall(r, st.epoch, now)
	case stateLocal:
		d, err = s.decideLocally(t, &r, st.cause, false)
	case statePaused:
		d, err = s.decideLocally(t, &r, errPause, false)
		if !t.uploadInFlight && now >= t.nextUpload && t.hasMissing(t.epoch != st.epoch) {
			r.op = ratelimit.OpMerge
			c = t.newCallWithMissing(r, st.epoch, now, at)
		}
	case stateSyncing:
		c = t.newCallWithMissing(r, st.epoch, now, at)
	}
	c.shard = sh
	return c, d, err
}

// makeCall makes a call and ends it. If it fails, this gateway decides, unless begin has decided the request before a call that merely
// uploads, or serve repeats the call.
func (s *Store) makeCall(ctx context.Context, c *call) (ratelimit.Decision, error) {
	var d ratelimit.Decision
	var a ratelimit.Account
	err := ratelimit.ErrNotSent                             // remains if the client has hung up, or its deadline is near
	if s.hasTime(ctx) && (ctx.Err() == nil || c.isUpload) { // other requests depend on an upload
		err = s.callThroughBreaker(c.start, func() (err error) {
			d, a, err = s.shared.Exchange(ctx, c.tokenID, c.policy, c.Exchange)
			return err
		})
	}
	now := s.now()
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	epoch := s.state.Load().epoch
	if err != nil {
		maybeExecuted := mayHaveExecuted(err)
		c.token.endUnanswered(c, maybeExecuted, s.sharedClock.at(now), epoch)
		if c.Op == ratelimit.OpMerge || c.mustRepeat(err) {
			return d, err
		}
		return s.decideLocally(c.token, &c.request, err, maybeExecuted)
	}
	if c.isUpload {
		s.metrics.uploads.Inc()
	}
	s.sharedClock.observe(d.At, c.start, now)
	c.token.endAnswered(c, &d, a, epoch)
	return d, nil
}

// hasTime reports whether a call ends before the deadline of ctx. A call with less time than its timeout would say nothing about the shared
// store, nor would that time be enough for the rest of the request.
func (s *Store) hasTime(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= s.callTimeout
}

// decideLocally decides a request in place of the shared store, for the reason cause. maybeExecuted reports whether the shared store may
// have executed the request nevertheless.
func (s *Store) decideLocally(t *token, r *request, cause error, maybeExecuted bool) (ratelimit.Decision, error) {
	switch c := s.configured.Load(); c.Mode {
	case ratelimit.ModeDeny:
		return ratelimit.Decision{}, s.unavailable(cause)
	case ratelimit.ModeAllow:
		return s.admit(r.policy), nil
	default:
		return t.decideByShare(r.policy, c.Gateways, s.sharedClock.at(s.now()), r.op == ratelimit.OpPeek, maybeExecuted), nil
	}
}

// admit returns the decision on a request that is not counted.
func (s *Store) admit(p *ratelimit.Policy) ratelimit.Decision {
	d := ratelimit.Decision{Allowed: true, DeniedBy: -1, ShadowDeniedBy: -1, At: s.clock(), Local: true}
	for i, l := range p.Limits() {
		d.Budgets[i].Remaining = l.Requests
	}
	return d
}

// Refund implements [ratelimit.Store]. It removes the admission from the accounts of this gateway, and from the shared store if the shared
// store may have counted it. If the call fails, the refund is lost: a metric counts it, and Refund returns nil. Local admissions in other
// modes than [ratelimit.ModeLocal] were not counted, so nothing is refunded.
func (s *Store) Refund(ctx context.Context, tokenID string, d ratelimit.Decision) error {
	if !d.Allowed || d.Local && s.configured.Load().Mode != ratelimit.ModeLocal {
		return nil
	}
	counted := !d.Local
	s.visit(tokenID, func(t *token) { counted = t.refund(&d) })
	if !counted {
		return nil
	}
	if err := s.callUnlessOutage(func() error { return s.shared.Refund(ctx, tokenID, d) }); err != nil {
		s.metrics.lostRefunds.Inc()
		s.logger.DebugContext(ctx, "a refund was lost", slog.String("token_id", tokenID), slog.Any("cause", err))
	}
	s.visit(tokenID, (*token).dropDenial) // after the call: a denial decided before the refund must not stay cached
	return nil
}

// Reset implements [ratelimit.Store]. During an outage, it drops the accounts of this gateway and fails with a
// *[ratelimit.UnavailableError], because the account in the shared store is not deleted.
func (s *Store) Reset(ctx context.Context, tokenID string) error {
	s.drop(tokenID)
	if err := s.callUnlessOutage(func() error { return s.shared.Reset(ctx, tokenID) }); err != nil {
		return s.unavailable(err)
	}
	s.drop(tokenID) // again, for requests during the call
	return nil
}

// drop drops a token. Calls in flight still update the dropped value, which has no effect.
func (s *Store) drop(tokenID string) {
	sh := s.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.tokens, tokenID)
}

// DropDenial drops the cached denial of a token, after a refund or a reset by any gateway; with "", the denials of all tokens.
func (s *Store) DropDenial(tokenID string) {
	if tokenID != "" {
		s.visit(tokenID, (*token).dropDenial)
		return
	}
	for i := range s.shards {
		s.shards[i].visitAll(func(_ string, t *token) { t.dropDenial() })
	}
}

// sweep drops tokens without usage.
func (s *Store) sweep() {
	at, gateways := s.sharedClock.at(s.now()), s.configured.Load().Gateways
	for i := range s.shards {
		sh := &s.shards[i]
		sh.visitAll(func(id string, t *token) {
			if t.calls == 0 && t.unused(at, gateways) {
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

// visit calls a function with the token, if there is one.
func (s *Store) visit(tokenID string, visit func(*token)) {
	sh := s.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t, ok := sh.tokens[tokenID]; ok {
		visit(t)
	}
}

func (s *Store) shard(tokenID string) *shard {
	return &s.shards[maphash.String(s.seed, tokenID)%shards]
}

// now returns the time since New. It is monotonic if the clock is.
func (s *Store) now() time.Duration { return s.clock().Sub(s.start) }

// unavailable returns an error with the time until the next probe, at least a second.
func (s *Store) unavailable(cause error) error {
	wait := max(time.Second, time.Unix(0, s.nextProbe.Load()).Sub(s.clock()))
	return &ratelimit.UnavailableError{RetryAfter: wait, Cause: cause}
}
