package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
)

// Shared is a store of budgets that gateways share. Each of its calls has a time-out of its own.
type Shared interface {
	ratelimit.Store

	// Settle tells what the store may not know of a token: what this gateway admitted by itself during an outage, which counts
	// in any case, and what it knew to have been spent before, which counts where the store has lost it. Both are newest first.
	Settle(ctx context.Context, tokenID string, p *ratelimit.Policy, before, during []ratelimit.Spending) error

	// Ping says whether the store can decide.
	Ping(ctx context.Context) error
}

// Options are what a Store is made of. All but Settings and Clock are required.
type Options struct {
	Shared     Shared
	Settings   Settings
	Clock      func() time.Time // nil for time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Store asks the shared store, and decides by itself while that is away. It is safe for concurrent use.
type Store struct {
	shared     Shared
	clock      func() time.Time
	logger     *slog.Logger
	metrics    *metrics
	configured atomic.Pointer[configured]

	breaker   *gobreaker.CircuitBreaker[ratelimit.Decision]
	breakerIs atomic.Int32
	inARow    atomic.Int32          // failures without a success between them, however long ago: the breaker forgets after ofLate
	cause     atomic.Pointer[error] // of the last failure
	left      chan struct{}         // tells Run that the shared store was left
	nextProbe atomic.Int64          // Unix time in nanoseconds

	phase   atomic.Pointer[phase]
	turning sync.Mutex // held while a phase takes another's place

	mirror *ratelimit.Memory // what the shared store last said of each token
	local  *ratelimit.Memory // what this process decides by: a share of each policy
	owed   *ratelimit.Memory // what it admitted by that and the shared store was not told of
	tokens *tokens
	told   atomic.Bool // a token is or is being settled since the phase became doubtful
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store that takes the shared one to be there, and has asked it nothing yet. [Store.Run] is to run beside it.
func New(o Options) (*Store, error) {
	if o.Shared == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("failover: a store needs a shared one, a logger and a registerer")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	memory := ratelimit.MemoryOptions{Clock: o.Clock}
	s := &Store{
		shared: o.Shared, clock: o.Clock, logger: o.Logger, left: make(chan struct{}, 1),
		mirror: ratelimit.NewMemory(memory), local: ratelimit.NewMemory(memory), owed: ratelimit.NewMemory(memory),
		tokens: newTokens(),
	}
	s.phase.Store(&phase{way: certain, since: o.Clock(), outage: 1})
	s.Configure(o.Settings)
	s.breaker = s.newBreaker()
	var err error
	s.metrics, err = s.newMetrics(o.Registerer)
	return s, err
}

// Configure has the store go by other settings from now on. What tokens spent stays counted.
func (s *Store) Configure(settings Settings) {
	s.configured.Store(&configured{Settings: settings.withDefaults()})
}

// A request is what a store is asked of a token.
type request struct {
	tokenID string
	policy  *ratelimit.Policy
	peek    bool // nothing is to be spent
}

func (r request) ask(ctx context.Context, store ratelimit.Store) (ratelimit.Decision, error) {
	if r.peek {
		return store.Peek(ctx, r.tokenID, r.policy)
	}
	return store.Decide(ctx, r.tokenID, r.policy)
}

// Decide implements [ratelimit.Store]. It fails in mode [Deny] only, with a *[ratelimit.UnavailableError].
func (s *Store) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.answer(ctx, request{tokenID: tokenID, policy: p})
}

// Peek implements [ratelimit.Store]. It fails as Decide does.
func (s *Store) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.answer(ctx, request{tokenID: tokenID, policy: p, peek: true})
}

func (s *Store) answer(ctx context.Context, r request) (ratelimit.Decision, error) {
	if ph := s.phase.Load(); ph.way != certain {
		if err := s.settle(ctx, r, ph); err != nil {
			return s.decide(r, err, false)
		}
	}
	d, err := s.call(ctx, func() (ratelimit.Decision, error) { return r.ask(ctx, s.shared) })
	if err != nil {
		return s.decide(r, err, mayHaveArrived(err))
	}
	if !r.peek && !d.Cached {
		s.mirror.Observe(r.tokenID, r.policy, d)
	}
	return d, nil
}

// Refund implements [ratelimit.Store]. What the shared store spent is given back there, and what was spent here, here. Where that
// cannot be, as the shared store has gone or come back since, it is not given back, which is counted; that is no error.
func (s *Store) Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error {
	var err error
	switch ph := s.phase.Load(); {
	case !d.Allowed, d.Local && d.Serial == 0: // nothing was spent
		return nil
	case d.Local:
		err = s.refundHere(ctx, tokenID, p, d)
	case ph.way == away:
		err = ph.cause
	default:
		_, err = s.call(ctx, func() (ratelimit.Decision, error) {
			return ratelimit.Decision{}, s.shared.Refund(ctx, tokenID, p, d)
		})
	}
	if err != nil {
		s.metrics.refunds.Inc()
		s.logger.DebugContext(ctx, "a request was not given back", slog.String("token_id", tokenID), slog.Any("cause", err))
	}
	return nil
}

// Reset implements [ratelimit.Store]. While the shared store is away, it forgets what is known here and fails with a
// *[ratelimit.UnavailableError], as what the shared store knows will count again.
func (s *Store) Reset(ctx context.Context, tokenID string) error {
	if err := s.forget(ctx, tokenID); err != nil {
		return fmt.Errorf("resetting a token: %w", err)
	}
	if ph := s.phase.Load(); ph.way == away {
		return s.unavailable(ph.cause)
	}
	_, err := s.call(ctx, func() (ratelimit.Decision, error) { return ratelimit.Decision{}, s.shared.Reset(ctx, tokenID) })
	if err != nil {
		return s.unavailable(err)
	}
	return nil
}

func (s *Store) unavailable(cause error) error {
	return &ratelimit.UnavailableError{RetryAfter: s.retryAfter(), Cause: cause}
}
