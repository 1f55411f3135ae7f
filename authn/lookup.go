package authn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/internal/timings"
	"opsgate/internal/uuid"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// The reason in the ErrorInfo of a NOT_FOUND for a revoked token, and the metadata key of the
// token's id.
const (
	tokenRevoked    = "TOKEN_REVOKED"
	metadataTokenID = "token_id"
)

// retryInterval is the time between lookups of a known token during an outage. They run in the
// background, and requests use the cached entry, so no request of a token in use waits, even if the
// service hangs. The service receives at most one call a second for each token.
const retryInterval = time.Second

// A flight is a lookup and the requests that wait for it. Neither the cache's loader nor
// x/sync/singleflight fits, because a revocation must reach a lookup in flight: one that started
// before the revocation may complete after it and would cache the revoked token again.
type flight struct {
	done  chan struct{} // closed when the lookup has completed
	epoch uint64        // at its start

	// Lookups of unknown tokens are queued by network; see fairQueue.
	unknown bool
	network netip.Prefix

	// Guarded by Authenticator.mu.
	queued         bool
	unknownWaiters int    // requests that wait for it, if it is unknown
	start          func() // makes the call
	// earlier is a lookup of the token in flight or queued, of an earlier epoch; nil if there is
	// none.
	earlier *flight
	// newer is the result of a later lookup, or a revocation since the start; nil for none. It is
	// used instead of any own result but a revocation.
	newer *entry

	// One of the two is set before done is closed.
	outcome *entry
	failure error
}

// currentFlight returns the lookup of the token that is in flight or queued, unless it belongs to
// an earlier epoch. The caller holds a.mu.
func (a *Authenticator) currentFlight(k key) (*flight, bool) {
	f, ok := a.flights[k]
	return f, ok && f.epoch == a.epoch.Load()
}

// join adds a request of the network to the lookup of the token. It starts or queues a lookup if
// there is none. It returns nil if the token is unknown and no more requests of the network may
// wait. The caller holds a.mu.
func (a *Authenticator) join(ctx context.Context, s *settings, k key, network netip.Prefix) *flight {
	f, shared := a.currentFlight(k)
	unknown := shared && f.unknown || !shared && !a.entries.isKnown(k)
	if unknown && !a.unknownQueue.admit(network, s.MaxLookups) {
		return nil
	}
	switch {
	case shared:
	case unknown:
		f = a.addFlight(ctx, k)
		f.unknown, f.network = true, network
		a.unknownQueue.push(f)
		a.startQueued()
	default:
		f = a.startKnown(ctx, k)
	}
	if unknown {
		f.unknownWaiters++
	}
	return f
}

// stopWaiting ends a request's wait. It drops a queued lookup for which no other request waits.
func (a *Authenticator) stopWaiting(k key, f *flight, network netip.Prefix) {
	if !f.unknown {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.unknownWaiters--; f.unknownWaiters == 0 && f.queued {
		a.unknownQueue.drop(f)
		a.removeFlight(k, f)
	}
	a.unknownQueue.release(network)
}

// addFlight adds a lookup of the token, which the caller starts or queues. The caller holds a.mu.
func (a *Authenticator) addFlight(ctx context.Context, k key) *flight {
	f := &flight{done: make(chan struct{}), epoch: a.epoch.Load(), earlier: a.flights[k]}
	f.start = func() { go a.lookup(ctx, k, f) }
	a.flights[k] = f
	return f
}

// removeFlight removes a lookup that has completed or was dropped. The caller holds a.mu.
func (a *Authenticator) removeFlight(k key, f *flight) {
	latest := a.flights[k]
	link := &latest
	for *link != f {
		link = &(*link).earlier
	}
	*link = f.earlier
	if a.flights[k] = latest; latest == nil {
		delete(a.flights, k)
	}
}

// supersede replaces the result of the lookup and of all earlier ones of the token. The caller
// holds Authenticator.mu.
func (f *flight) supersede(newer *entry) {
	for ; f != nil; f = f.earlier {
		f.newer = newer
	}
}

// startKnown starts a lookup of a known token, which is never queued. The caller holds a.mu.
func (a *Authenticator) startKnown(ctx context.Context, k key) *flight {
	f := a.addFlight(ctx, k)
	a.knownInFlight.Add(1)
	f.start()
	return f
}

// startQueued starts queued lookups while fewer than MaxLookups are in flight. The caller holds
// a.mu.
func (a *Authenticator) startQueued() {
	limit := a.settings.Load().MaxLookups
	for f := a.unknownQueue.next(limit); f != nil; f = a.unknownQueue.next(limit) {
		f.start()
	}
}

// lookup calls the identity service and completes the flight. It ignores the end of ctx, which
// belongs to the first of the requests that wait for it. In a trace, that request's span is the
// parent.
func (a *Authenticator) lookup(ctx context.Context, k key, f *flight) {
	s := a.settings.Load()
	ctx, cancel := context.WithTimeout(timings.Detach(context.WithoutCancel(ctx)), s.LookupTimeout)
	defer cancel()
	response, err := a.identity.ResolveToken(ctx, &identityv1.ResolveTokenRequest{TokenSha256: k[:]})
	e, err := a.interpret(s, k, response, err)
	a.recordAvailability(err)

	a.mu.Lock()
	defer a.mu.Unlock()
	a.complete(s, k, f, e, err)
	if f.unknown {
		a.unknownQueue.done()
		a.startQueued()
	} else {
		a.knownInFlight.Add(-1)
	}
	close(f.done)
}

// interpret converts the response of the identity service to an entry, or to an error if the state
// of the token is unclear. Only NOT_FOUND refuses a token. Any other error, and a response that
// breaks the contract, is a failure of the service.
func (a *Authenticator) interpret(
	s *settings, k key, response *identityv1.ResolveTokenResponse, err error,
) (*entry, error) {
	now := a.now()
	if status.Code(err) == codes.NotFound {
		if info := errorInfo(err); info.GetReason() == tokenRevoked {
			a.metrics.revoked.Inc()
			return a.revokedEntry(s, k, info.GetMetadata()[metadataTokenID]), nil
		}
		a.metrics.notFound.Inc()
		return newRefusal(notFound, ErrNotFound, now, negativeTTL), nil
	}
	if err != nil {
		a.metrics.unavailable.Inc()
		return nil, fmt.Errorf("%w: resolve a token: %w", ErrUnavailable, err)
	}
	principal, err := newPrincipal(response)
	if err != nil {
		a.logs.breaches.Fail(err)
		a.metrics.invalid.Inc()
		return nil, fmt.Errorf("resolve a token: %w", err)
	}
	a.logs.breaches.Succeed()
	a.metrics.resolved.Inc()
	a.availability.tokenConfirmed(now)
	return &entry{principal: principal, determinedAt: now, confirmedAt: now, keepUntil: now + s.StaleFor}, nil
}

// newRefusal returns the entry of an invalid token.
func newRefusal(s state, reason error, now, keepFor time.Duration) *entry {
	return &entry{state: s, refusal: reason, determinedAt: now, confirmedAt: now, keepUntil: now + keepFor}
}

// revokedEntry returns the entry of a revoked token, with the ids from the identity service or the
// cache.
func (a *Authenticator) revokedEntry(s *settings, k key, tokenID string) *entry {
	ids := &RefusedError{Reason: ErrRevoked}
	if cached, _, ok := a.entries.peek(k); ok {
		if known, ok := errors.AsType[*RefusedError](cached.refusal); ok {
			*ids = *known
		} else if cached.principal != nil {
			ids.Identity = cached.principal.identity()
		}
	}
	if id, ok := uuid.Canonical(tokenID); ok {
		ids.TokenID = id
	}
	return newRefusal(revoked, ids, a.now(), s.StaleFor)
}

// complete sets the outcome of the flight and caches it. The caller holds a.mu.
func (a *Authenticator) complete(s *settings, k key, f *flight, e *entry, err error) {
	a.removeFlight(k, f)
	cached, _, ok := a.entries.peek(k)
	switch {
	case f.newer != nil && (e == nil || e.state != revoked): // a revocation is final, whichever lookup found it
		f.outcome = f.newer
		return
	case err == nil:
		f.outcome = e
		f.earlier.supersede(e)
	case ok && a.usableInOutage(s, cached):
		f.outcome = cached.asUnconfirmed(a.now(), s.StaleFor)
	default:
		f.failure = err
		return
	}
	f.outcome.epoch = f.epoch
	if ok && cached.epoch > f.epoch && (f.outcome.state != revoked || errors.Is(cached.refusal, ErrRevoked)) {
		return // of a later lookup that failed, or of a revocation: this one is from before an invalidation
	}
	a.entries.set(k, f.outcome)
}

// usableInOutage reports whether the entry may be used while the identity service is unavailable.
func (a *Authenticator) usableInOutage(s *settings, e *entry) bool {
	return e.principal == nil || a.now() < e.confirmedAt+s.StaleFor
}

// asUnconfirmed returns the entry for further use while the identity service is unavailable. A
// StaleFor that was raised since its confirmation keeps a principal for longer.
func (e *entry) asUnconfirmed(now, staleFor time.Duration) *entry {
	keepUntil := e.keepUntil
	if e.principal != nil {
		keepUntil = max(keepUntil, e.confirmedAt+staleFor)
	}
	return &entry{
		state: unconfirmed, principal: e.principal, refusal: e.refusal,
		determinedAt: now, confirmedAt: e.confirmedAt, keepUntil: keepUntil,
	}
}

// recordAvailability records the result of a lookup. A response that breaks the contract is one of
// an available service.
func (a *Authenticator) recordAvailability(err error) {
	down := errors.Is(err, ErrUnavailable)
	a.availability.record(a.now(), down)
	if down {
		a.logs.service.Fail(err)
	} else {
		a.logs.service.Succeed()
	}
}

// errorInfo returns the google.rpc.ErrorInfo of an error, or nil.
func errorInfo(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}
