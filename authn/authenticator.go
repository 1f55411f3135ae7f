package authn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/backendclient/timings"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// An Authenticator tells whom tokens stand for. It is safe for concurrent use. What it remembers is kept true by
// [Authenticator.Run]; without it, a revoked token is accepted for up to Settings.FreshFor.
type Authenticator struct {
	*memory

	identity  identityv1.IdentityServiceClient
	settings  Settings
	lifetimes lifetimes
}

// A memory is what all Authenticators share that are made of one another.
type memory struct {
	format  TokenFormat
	logger  *slog.Logger
	metrics *metrics

	now     func() time.Duration // since the start, by a monotonic clock where Options.Clock is one
	entries entries

	// epoch rises when all that was learned before must be confirmed before it is used again: an entry or a look-up of an
	// older epoch is not fresh, however young.
	epoch atomic.Uint64

	// cutSince is when the stream of revocations was lost, as a [time.Duration]; 0 while it is up, or nobody follows it.
	cutSince atomic.Int64

	identityAway atomic.Bool // the last look-up failed; for the log
	contract     contractState
	shedding     shedding

	knownInFlight atomic.Int64 // look-ups of tokens that were confirmed here

	// mu guards flights and unknown, and makes what a look-up or a revocation does to both entries and flights one step. Hits do not
	// take it.
	mu      sync.Mutex
	flights map[key]*flight
	unknown fairQueue // look-ups of all other tokens
}

// New makes an Authenticator. It fails when the options make no sense or the metrics are registered already, and calls
// nobody.
func New(options Options) (*Authenticator, error) {
	o := options.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("authn options: %w", err)
	}
	start := o.Clock()
	m := &memory{
		format:   o.Format,
		logger:   o.Logger,
		now:      func() time.Duration { return o.Clock().Sub(start) },
		contract: contractState{logger: o.Logger},
		shedding: shedding{logger: o.Logger},
		flights:  make(map[key]*flight),
		unknown:  newFairQueue(),
	}
	var err error
	if m.entries, err = newEntries(o.MaxEntries, m.now); err != nil {
		return nil, fmt.Errorf("authn cache: %w", err)
	}
	if m.metrics, err = newMetrics(o.Registerer, m, o.MaxEntries); err != nil {
		return nil, fmt.Errorf("authn metrics: %w", err)
	}
	return &Authenticator{memory: m, identity: o.Identity, settings: o.Settings, lifetimes: o.lifetimes()}, nil
}

// With returns an Authenticator with other settings that asks by the given client and shares all else with this one: what one of
// them learns, the other knows, and one's Run serves both. The settings hold at once, for what is remembered already too. It
// fails when they make no sense.
func (a *Authenticator) With(identity identityv1.IdentityServiceClient, settings Settings) (*Authenticator, error) {
	s := settings.withDefaults()
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("authn settings: %w", err)
	}
	return &Authenticator{memory: a.memory, identity: identity, settings: s, lifetimes: s.lifetimes()}, nil
}

// Authenticate returns whom the token of a request from the source stands for. The principal is shared and must not be modified.
//
// Errors: [ErrInvalidToken] with its reason; [ErrUnavailable] when the identity service could not tell, or was not asked as too
// many requests of unknown tokens wait ([ErrBusy]), and [ErrContract] when its answer breaks the contract, both only if nothing recent is
// cached; the context's own when it ended while waiting.
func (a *Authenticator) Authenticate(ctx context.Context, token string, from Source) (*Principal, error) {
	if !a.format.Valid(token) {
		return nil, ErrMalformed
	}
	k := Hash(token)
	e, now, ok := a.entries.get(k)
	if !ok || !a.fresh(e, now) {
		return a.await(ctx, k, networkOf(from.ClientAddr()))
	}
	if now >= e.since+a.lifetime(e).quiet {
		a.refresh(ctx, k, e)
	}
	return a.use(e)
}

// fresh tells whether the entry may be used without asking.
func (a *Authenticator) fresh(e *entry, now time.Duration) bool {
	return now < e.since+a.lifetime(e).fresh && e.epoch == a.epoch.Load()
}

// lifetime is that of the entry as things stand: while nobody tells of revocations, a confirmed one has less.
func (a *Authenticator) lifetime(e *entry) lifetime {
	if e.kind != confirmed {
		return a.lifetimes.of[e.kind]
	}
	switch cut := time.Duration(a.cutSince.Load()); {
	case cut == 0:
		return a.lifetimes.of[confirmed]
	case e.since < cut:
		return a.lifetimes.overtaken
	default:
		return a.lifetimes.unwatched
	}
}

// refresh has a token in use looked up again, and does not wait for it. As many such look-ups may be under way as there may be
// of unknown tokens; where they are, a later use of the token sees to it.
func (a *Authenticator) refresh(ctx context.Context, k key, e *entry) {
	if e.principal == nil || a.knownInFlight.Load() >= int64(a.settings.MaxLookUps) || !e.asked.CompareAndSwap(false, true) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.underWay(k); !ok {
		a.beginKnown(k, a.newFlight(ctx, k))
	}
}

// use returns the entry as Authenticate does.
func (m *memory) use(e *entry) (*Principal, error) {
	if e.kind == unconfirmed {
		m.metrics.stales.Inc()
	} else {
		m.metrics.hits.Inc()
	}
	return e.principal, e.refusal
}

// await has the token looked up and waits for the outcome, at most as long as the caller has.
func (a *Authenticator) await(ctx context.Context, k key, network netip.Prefix) (*Principal, error) {
	a.mu.Lock()
	if e, now, ok := a.entries.peek(k); ok && a.fresh(e, now) {
		a.mu.Unlock() // the look-up of another landed just now
		return a.use(e)
	}
	f := a.join(ctx, k, network)
	a.mu.Unlock()
	if f == nil {
		return nil, a.shed(network)
	}
	defer a.leave(k, f, network)

	began := a.now()
	defer func() { timings.FromContext(ctx).Add(timings.Identity, a.now()-began) }()
	if err := a.wait(ctx, f); err != nil {
		if errors.Is(err, ErrBusy) {
			return nil, a.shed(network)
		}
		return nil, err
	}
	if f.failure == nil && f.outcome.kind == unconfirmed {
		return a.use(f.outcome)
	}
	a.metrics.misses.Inc()
	if f.failure != nil {
		return nil, f.failure
	}
	return f.outcome.principal, f.outcome.refusal
}

// wait waits until the flight has landed. It returns ErrBusy if its turn has not come within the time of a look-up, or of the request.
func (a *Authenticator) wait(ctx context.Context, f *flight) error {
	turn := time.NewTimer(a.patience(ctx))
	defer turn.Stop()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return waitEnded(ctx)
	case <-turn.C:
	}
	a.mu.Lock()
	queued := f.queued
	a.mu.Unlock()
	if queued {
		return ErrBusy
	}
	select { // it has begun, and ends by its own deadline
	case <-f.done:
		return nil
	case <-ctx.Done():
		return waitEnded(ctx)
	}
}

func waitEnded(ctx context.Context) error {
	return fmt.Errorf("wait for the identity service: %w", ctx.Err())
}

// patience is how long a request waits for its turn.
func (a *Authenticator) patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(a.settings.LookUpTimeout, time.Until(deadline))
	}
	return a.settings.LookUpTimeout
}

// shed counts a request of a network whose token is not looked up.
func (a *Authenticator) shed(network netip.Prefix) error {
	a.metrics.shed.Inc()
	a.shedding.refuse(a.settings.MaxLookUps, network)
	return ErrBusy
}
