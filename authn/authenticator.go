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

	"opsgate/internal/netaddr"
	"opsgate/internal/timings"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// An Authenticator resolves tokens to principals. It is safe for concurrent use.
// [Authenticator.Run] keeps its cache up to date; without it, a revoked token is accepted for up to
// Settings.FreshFor.
type Authenticator struct {
	format   TokenFormat
	identity identityv1.IdentityServiceClient
	logger   *slog.Logger
	metrics  *metrics
	settings atomic.Pointer[settings]

	clock   func() time.Time
	now     func() time.Duration // since the start; monotonic if Options.Clock is
	entries entries

	// epoch is incremented to invalidate all entries and lookups: an entry or a lookup of an
	// earlier epoch is not fresh.
	epoch atomic.Uint64

	// disconnectedAt is when the revocation stream was disconnected, as a [time.Duration]; 0 while
	// it is connected or before the first attempt has failed.
	disconnectedAt atomic.Int64

	availability availability
	logs         logs

	knownInFlight atomic.Int64 // lookups of known tokens

	// mu guards flights and unknownQueue. It is also held while a lookup or a revocation changes
	// both entries and flights. Cache hits do not lock it.
	mu           sync.Mutex
	flights      map[key]*flight // the latest of each token, from which the earlier ones are linked
	unknownQueue fairQueue       // lookups of unknown tokens
}

// New makes an Authenticator, without calls to any service. It returns an error if the options are
// invalid or the metrics are already registered.
func New(options Options) (*Authenticator, error) {
	o := options.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("authn options: %w", err)
	}
	start := o.Clock()
	a := &Authenticator{
		format:       o.Format,
		identity:     o.Identity,
		logger:       o.Logger,
		clock:        o.Clock,
		now:          func() time.Duration { return o.Clock().Sub(start) },
		flights:      make(map[key]*flight),
		unknownQueue: newFairQueue(),
	}
	a.logs.init(o.Logger)
	a.Apply(o.Settings)
	var err error
	if a.entries, err = newEntries(o.MaxEntries, a.now); err != nil {
		return nil, fmt.Errorf("authn cache: %w", err)
	}
	if a.metrics, err = newMetrics(o.Registerer, a, o.MaxEntries); err != nil {
		return nil, fmt.Errorf("authn metrics: %w", err)
	}
	return a, nil
}

// Apply replaces the settings, which must be valid; see [Settings.Validate]. They apply at once, to
// cached tokens as well; a lookup in flight keeps the settings with which it started.
func (a *Authenticator) Apply(s Settings) {
	s = s.withDefaults()
	a.settings.Store(&settings{Settings: s, limits: s.ageLimitTable()})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.startQueued() // more may be allowed in flight
}

// Authenticate returns the principal of a token. The principal is shared and must not be modified.
//
// Errors: an [ErrInvalidToken] with its reason; [ErrUnavailable] if the identity service is
// unavailable, or [ErrBusy] if too many unknown tokens wait for a lookup; [ErrContract] if its
// response breaks the contract; the context's own error if it ends during the wait. No error of the
// identity service is returned while a recent result is cached.
func (a *Authenticator) Authenticate(ctx context.Context, token string, from Source) (*Principal, error) {
	p, err := a.authenticate(ctx, token, from)
	if err != nil {
		return nil, err
	}
	if expired := a.expired(p); expired != nil {
		return nil, expired
	}
	return p, nil
}

// expired returns the error of a token that has expired, or nil. It reads the clock, which suspends
// and steps may have moved since the lookup, at each use.
func (a *Authenticator) expired(p *Principal) *RefusedError {
	if p.ExpiresAt.IsZero() || a.clock().Before(p.ExpiresAt.Add(expiryGrace)) {
		return nil
	}
	return &RefusedError{p.identity(), ErrExpired}
}

// authenticate is Authenticate without the expiry of the token.
func (a *Authenticator) authenticate(ctx context.Context, token string, from Source) (*Principal, error) {
	if !a.format.Valid(token) {
		return nil, ErrMalformed
	}
	k, s := Hash(token), a.settings.Load()
	e, now, ok := a.entries.get(k)
	if !ok {
		return a.awaitLookup(ctx, s, k, netaddr.NetworkOf(from.ClientAddr()))
	}
	limits := a.ageLimits(s, e)
	if !a.fresh(limits, e, now) {
		return a.awaitLookup(ctx, s, k, netaddr.NetworkOf(from.ClientAddr()))
	}
	if now >= e.determinedAt+limits.refreshAfter {
		a.refresh(ctx, s, k, e)
	}
	return a.result(e)
}

// fresh reports whether the entry may be used without a lookup.
func (a *Authenticator) fresh(limits ageLimits, e *entry, now time.Duration) bool {
	return now < e.determinedAt+limits.expireAfter && e.epoch == a.epoch.Load()
}

// ageLimits returns the age limits of the entry, which are shorter for a confirmed one while the
// revocation stream is disconnected.
func (a *Authenticator) ageLimits(s *settings, e *entry) ageLimits {
	if e.state != confirmed {
		return s.limits.byState[e.state]
	}
	switch at := time.Duration(a.disconnectedAt.Load()); {
	case at == 0:
		return s.limits.byState[confirmed]
	case e.determinedAt < at:
		return s.limits.beforeDisconnect
	default:
		return s.limits.duringDisconnect
	}
}

// refresh starts a lookup of a token in use and does not wait for it. It does nothing for a refused
// token. While MaxLookups lookups of known tokens are in flight, it does nothing either, and a
// later request tries again.
func (a *Authenticator) refresh(ctx context.Context, s *settings, k key, e *entry) {
	limit := int64(s.MaxLookups)
	if e.principal == nil || e.refreshing.Load() || a.knownInFlight.Load() >= limit {
		return // checked before the lock is taken, as most requests return here
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.knownInFlight.Load() >= limit || !e.refreshing.CompareAndSwap(false, true) {
		return
	}
	if _, ok := a.currentFlight(k); !ok {
		a.startKnown(ctx, k)
	}
}

// result counts the use of an entry, and returns its principal or its refusal.
func (a *Authenticator) result(e *entry) (*Principal, error) {
	if e.state == unconfirmed {
		a.metrics.staleHits.Inc()
	} else {
		a.metrics.hits.Inc()
	}
	return e.principal, e.refusal
}

// awaitLookup starts or joins a lookup and waits for its outcome, until ctx ends.
func (a *Authenticator) awaitLookup(ctx context.Context, s *settings, k key, network netip.Prefix) (*Principal, error) {
	a.mu.Lock()
	if e, now, ok := a.entries.peek(k); ok && a.fresh(a.ageLimits(s, e), e, now) {
		a.mu.Unlock() // another lookup has just completed
		return a.result(e)
	}
	f := a.join(ctx, s, k, network)
	a.mu.Unlock()
	if f == nil {
		return nil, a.shed(s, network)
	}
	defer a.stopWaiting(k, f, network)

	start := a.now()
	defer func() { timings.FromContext(ctx).Add(timings.Identity, a.now()-start) }()
	if err := a.wait(ctx, s, f); err != nil {
		if errors.Is(err, ErrBusy) {
			return nil, a.shed(s, network)
		}
		return nil, err
	}
	if f.failure == nil && f.outcome.state == unconfirmed {
		return a.result(f.outcome) // a cached result was used after all: not a miss
	}
	a.metrics.misses.Inc()
	if f.failure != nil {
		return nil, f.failure
	}
	return f.outcome.principal, f.outcome.refusal
}

// wait waits until the flight is done. It returns ErrBusy if the flight is still queued after
// LookupTimeout or at the deadline of ctx.
func (a *Authenticator) wait(ctx context.Context, s *settings, f *flight) error {
	if deadline, ok := ctx.Deadline(); ok { // the context of a request has no timer
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	timer := time.NewTimer(s.LookupTimeout)
	defer timer.Stop()
	for {
		select {
		case <-f.done:
			return nil
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) && a.isQueued(f) {
				return ErrBusy
			}
			return fmt.Errorf("wait for the identity service: %w", ctx.Err())
		case <-timer.C:
			if a.isQueued(f) {
				return ErrBusy
			} // else its call has a timeout of its own
		}
	}
}

func (a *Authenticator) isQueued(f *flight) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return f.queued
}

// shed counts a request that is rejected without a lookup, and returns ErrBusy.
func (a *Authenticator) shed(s *settings, network netip.Prefix) error {
	a.metrics.shed.Inc()
	a.logs.shedding.Fail(nil, slog.Int("max_lookups", s.MaxLookups), slog.Any("first_refused", network))
	a.logs.shedding.Succeed() // unless another request is rejected within steadyLookups
	return ErrBusy
}

// A Source is the origin of a request.
type Source interface {
	// ClientAddr returns the address of the client; 0.0.0.0 or the zero Addr if it is unknown. It
	// is called only before a lookup, so it may parse headers.
	ClientAddr() netip.Addr
}
