package failover

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/ratelimit"
)

// Shared is a rate limit store that gateways share. Its calls have their own timeouts, and are not
// retried.
type Shared interface {
	// Exchange executes an operation. It returns the decision, and the account after it, which the
	// caller keeps. Exchange must not modify or keep the account passed, nor end with ctx: an error
	// is a failure of the store. It contains [ratelimit.ErrNotExecuted] if the store has not
	// executed the call.
	Exchange(ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange) (ratelimit.Decision,
		ratelimit.Account, error)

	// Refund is as in [ratelimit.Store].
	Refund(ctx context.Context, tokenID string, d ratelimit.Decision) error

	// Reset is as in [ratelimit.Store].
	Reset(ctx context.Context, tokenID string) error

	// Ping fails unless the store can decide and record a request.
	Ping(ctx context.Context) error
}

// Settings can change while a store is in use. Zero values stand for the defaults.
type Settings struct {
	Mode       ratelimit.Mode // in state local; ModeLocal by default
	Gateways   int            // that divide the limits among them in ModeLocal; 1 by default
	ProbeEvery time.Duration  // in state local, plus or minus a fifth; 500 ms by default
}

// Options are the options of a Store. Shared, Logger and Registerer are required.
type Options struct {
	Shared      Shared
	CallTimeout time.Duration // of the calls of Shared: a request with less time until its deadline makes none
	Settings    Settings
	// reports whether DropDenial is called for refunds and resets by other gateways; nil for always
	Subscribed func() bool
	Clock      func() time.Time // nil for time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Store decides by the shared store, or by itself while the shared store is not available. It is
// safe for concurrent use.
type Store struct {
	shared      Shared
	callTimeout time.Duration
	subscribed  func() bool
	clock       func() time.Time
	start       time.Time // of New
	logger      *slog.Logger
	metrics     *metrics
	configured  atomic.Pointer[Settings]

	outage      atomic.Pointer[outage] // nil in state shared
	failures    failureRate
	outageBegan chan struct{} // wakes Run
	nextProbe   atomic.Int64  // Unix time in ns

	stateMu     sync.Mutex // held while the state changes; guards the next two fields
	outageSince time.Time  // start of the last outage, or of the first of several with short times between them
	sharedSince time.Time  // start, or end of the last outage

	mayHaveOwn atomic.Bool // there may be admissions to upload

	sharedClock    sharedClock
	lastDifference time.Duration // between the clocks, as last reported; used by Run alone
	seed           maphash.Seed
	shards         [shards]shard
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store in state shared. It does not call the shared store yet. [Store.Run] must run
// beside the requests.
func New(o Options) (*Store, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Subscribed == nil {
		o.Subscribed = func() bool { return true }
	}
	s := &Store{
		shared: o.Shared, callTimeout: o.CallTimeout, subscribed: o.Subscribed, clock: o.Clock, start: o.Clock(),
		logger:      o.Logger,
		outageBegan: make(chan struct{}, 1), seed: maphash.MakeSeed(),
	}
	s.sharedSince = s.start
	s.sharedClock.offset.Store(s.start.UnixMicro()) // until the first answer, the clocks are taken as equal
	for i := range s.shards {
		s.shards[i].entries = make(map[string]*entry)
	}
	s.Configure(o.Settings)
	var err error
	s.metrics, err = s.newMetrics(o.Registerer)
	return s, err
}

// Configure replaces the settings. Usage is kept.
func (s *Store) Configure(settings Settings) {
	settings.Mode = cmp.Or(settings.Mode, ratelimit.ModeLocal)
	settings.Gateways = max(1, settings.Gateways)
	settings.ProbeEvery = cmp.Or(settings.ProbeEvery, 500*time.Millisecond)
	s.configured.Store(&settings)
}

// A request is a request of a client for a decision, a peek, or an upload of the background loop.
type request struct {
	tokenID string
	policy  *ratelimit.Policy
	op      ratelimit.Op
}

// Decide implements [ratelimit.Store]. It fails in [ratelimit.ModeDeny] only, with a
// *[ratelimit.UnavailableError]. A request that the policy blocks is denied in every mode.
func (s *Store) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.serve(ctx, &request{tokenID, p, ratelimit.OpDecide})
}

// Peek implements [ratelimit.Store]. It fails as Decide does. In state shared, its decision does
// not include admissions that gateways have not uploaded yet.
func (s *Store) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.serve(ctx, &request{tokenID, p, ratelimit.OpPeek})
}

// errNoTime is the reason of a decision without a call in state shared.
var errNoTime = errors.New("the request has less time left than a call of the shared store takes")

func (s *Store) serve(ctx context.Context, r *request) (ratelimit.Decision, error) {
	if d, blocked := r.policy.Blocked(s.clock()); blocked {
		return d, nil
	}
	if o := s.outage.Load(); o != nil {
		return s.decideLocally(r, o.cause)
	}
	if !s.hasTime(ctx) {
		return s.decideLocally(r, errNoTime)
	}
	if d, ok := s.cachedDenial(r); ok {
		return d, nil
	}
	d, err := s.exchange(ctx, r)
	if err != nil {
		return s.decideLocally(r, err)
	}
	return d, nil
}

// hasTime reports whether a call ends before ctx. A call with less time than its timeout would say
// nothing about the shared store, nor would that time be enough for the rest of the request.
func (s *Store) hasTime(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() == nil && (!ok || time.Until(deadline) >= s.callTimeout)
}

// exchange makes a call for a request, which carries the gateway's own admissions of the token.
func (s *Store) exchange(ctx context.Context, r *request) (d ratelimit.Decision, err error) {
	sh, start := s.shard(r.tokenID), s.now()
	c := sh.beginCall(r)
	var a ratelimit.Account
	err = s.call(func() (err error) {
		d, a, err = s.shared.Exchange(ctx, r.tokenID, r.policy, ratelimit.Exchange{Op: r.op, Upload: c.upload})
		return err
	})
	now := s.now()
	if err != nil {
		sh.failed(c, !errors.Is(err, ratelimit.ErrNotExecuted), s.sharedClock.at(now))
		s.mayHaveOwn.Store(true)
		return d, err
	}
	if c.upload != nil {
		s.metrics.uploads.Inc()
	}
	s.sharedClock.observe(d.At, start, now)
	sh.answered(c, &d, a)
	return d, nil
}

// decideLocally decides a request without the shared store, for the reason cause.
func (s *Store) decideLocally(r *request, cause error) (ratelimit.Decision, error) {
	switch c := s.configured.Load(); c.Mode {
	case ratelimit.ModeDeny:
		return ratelimit.Decision{}, s.unavailable(cause)
	case ratelimit.ModeAllow:
		return s.admit(r.policy), nil
	default:
		d := s.shard(r.tokenID).decideByShare(r, c.Gateways, s.sharedClock.at(s.now()))
		s.mayHaveOwn.Store(true)
		return d, nil
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

// Refund implements [ratelimit.Store]. It removes an admission where it counts:
//   - nowhere, if it was made in mode allow,
//   - in this gateway, until it is uploaded,
//   - else in the shared store. If that call fails, the refund is lost, and counted in a metric.
func (s *Store) Refund(ctx context.Context, tokenID string, d ratelimit.Decision) error {
	if !d.Allowed || d.Local && s.configured.Load().Mode != ratelimit.ModeLocal {
		return nil
	}
	sh := s.shard(tokenID)
	if d.Local && sh.refundOwn(tokenID, d.At) {
		return nil
	}
	if err := s.callUnlessLocal(func() error { return s.shared.Refund(ctx, tokenID, d) }); err != nil {
		s.metrics.lostRefunds.Inc()
		s.logger.DebugContext(ctx, "a refund was lost", slog.String("token_id", tokenID), slog.Any("cause", err))
	}
	sh.dropDenial(tokenID) // after the call: a denial decided before the refund must not stay cached
	return nil
}

// Reset implements [ratelimit.Store]. It fails with a *[ratelimit.UnavailableError], always in
// state local, and then drops nothing.
func (s *Store) Reset(ctx context.Context, tokenID string) error {
	if err := s.callUnlessLocal(func() error { return s.shared.Reset(ctx, tokenID) }); err != nil {
		return s.unavailable(err)
	}
	s.Drop(tokenID)
	return nil
}

// callUnlessLocal makes a call in state shared, and else returns the cause of the outage.
func (s *Store) callUnlessLocal(do func() error) error {
	if o := s.outage.Load(); o != nil {
		return o.cause
	}
	return s.call(do)
}

// unavailable returns an error with the time until the next probe, at least a second.
func (s *Store) unavailable(cause error) error {
	wait := max(time.Second, time.Unix(0, s.nextProbe.Load()).Sub(s.clock()))
	return &ratelimit.UnavailableError{RetryAfter: wait, Cause: cause}
}

// now returns the time since New. It is monotonic if the clock is.
func (s *Store) now() time.Duration { return s.clock().Sub(s.start) }
