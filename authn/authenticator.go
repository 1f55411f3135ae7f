package authn

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

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

	now   func() time.Duration // since the start, by a monotonic clock where Options.Clock is one
	cache *otter.Cache[key, *entry]

	// epoch rises when all that was learned before must be confirmed before it is used again: an entry or a look-up of an
	// older epoch is not fresh, however young.
	epoch atomic.Uint64

	identityAway atomic.Bool // the last look-up failed; for the log

	// mu guards flights, and makes what a look-up or a revocation does to both cache and flights one step. Cache hits do
	// not take it.
	mu      sync.Mutex
	flights map[key]*flight
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
		format:  o.Format,
		logger:  o.Logger,
		now:     func() time.Duration { return o.Clock().Sub(start) },
		flights: make(map[key]*flight),
	}
	var err error
	if m.cache, err = newCache(o.MaxEntries, m.now); err != nil {
		return nil, fmt.Errorf("authn cache: %w", err)
	}
	if m.metrics, err = newMetrics(o.Registerer, m.cache.EstimatedSize); err != nil {
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

// Authenticate returns whom the token stands for. The principal is shared and must not be modified.
//
// Errors: [ErrInvalidToken] with its reason; [ErrUnavailable] when the identity service could not tell and nothing recent is
// known; the context's own when it ended while waiting.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (*Principal, error) {
	if !a.format.Valid(token) {
		return nil, ErrMalformed
	}
	k := Hash(token)
	known, ok := a.cache.GetEntry(k)
	now := time.Duration(known.SnapshotAtNano) // saves a second reading of the clock
	if !ok || !a.fresh(known.Value, now) {
		return a.await(ctx, k)
	}
	if e := known.Value; now >= e.since+a.lifetimes[e.kind].quiet && e.asked.CompareAndSwap(false, true) {
		a.mu.Lock()
		a.join(k)
		a.mu.Unlock()
	}
	return a.use(known.Value)
}

// fresh tells whether the entry may be used without asking.
func (a *Authenticator) fresh(e *entry, now time.Duration) bool {
	return now < e.since+a.lifetimes[e.kind].fresh && e.epoch == a.epoch.Load()
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
func (a *Authenticator) await(ctx context.Context, k key) (*Principal, error) {
	a.mu.Lock()
	if e, ok := a.cache.GetEntryQuietly(k); ok && a.fresh(e.Value, time.Duration(e.SnapshotAtNano)) {
		a.mu.Unlock() // the look-up of another landed just now
		return a.use(e.Value)
	}
	f := a.join(k)
	a.mu.Unlock()

	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the identity service: %w", ctx.Err())
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
