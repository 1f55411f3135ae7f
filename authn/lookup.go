package authn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/timings"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// What the ErrorInfo of a NOT_FOUND has: the reason by which the identity service tells a revoked token from one that never was, and the
// key of that token's id among the metadata.
const (
	tokenRevoked    = "TOKEN_REVOKED"
	metadataTokenID = "token_id"
)

// When a look-up fails, the first use of a known token after outagePause has it looked up again, and it is used without waiting
// for as long as that may take twice. So an outage costs a token in use no waiting at all, even where the service hangs, and
// the service gets at most a call a second for it.
const outagePause = time.Second

// A flight is one look-up and all who wait for it. It is not the cache's own loader, nor x/sync/singleflight, because a
// revocation must be able to reach a look-up under way: one that began before the revocation may land after it, and would
// put the revoked token back.
type flight struct {
	done  chan struct{} // closed once the flight has landed
	epoch uint64        // when it began

	// Look-ups of tokens that were not confirmed here take turns by network; see fairQueue.
	unknown bool
	network netip.Prefix

	// Guarded by memory.mu.
	queued  bool   // it waits for its turn
	waiters int    // requests that wait for it
	start   func() // makes the call
	revoked bool   // the token was revoked meanwhile

	// One of the two is set before done is closed.
	outcome *entry
	failure error
}

// underWay returns the look-up of the token that is under way or queued. One that began before trust was lost does not count. The caller
// holds a.mu.
func (a *Authenticator) underWay(k key) (*flight, bool) {
	f, ok := a.flights[k]
	return f, ok && f.epoch == a.epoch.Load()
}

// join has a request of the network wait for the look-up of the token, which it begins or queues if none is under way. It returns nil if
// the token is unknown and there is no room for one more request of the network. The caller holds a.mu.
func (a *Authenticator) join(ctx context.Context, k key, network netip.Prefix) *flight {
	f, shared := a.underWay(k)
	if !shared {
		f = a.newFlight(ctx, k)
		f.unknown, f.network = !a.entries.known(k), network
	}
	if f.unknown && !a.unknown.admit(network, a.settings.MaxLookUps) {
		return nil
	}
	f.waiters++
	switch {
	case shared:
	case f.unknown:
		a.flights[k] = f
		a.unknown.push(f)
		a.startQueued()
	default:
		a.beginKnown(k, f)
	}
	return f
}

// leave undoes join for a request that waits no more. A queued look-up that no request waits for is dropped.
func (a *Authenticator) leave(k key, f *flight, network netip.Prefix) {
	if !f.unknown {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.waiters--; f.waiters == 0 && f.queued {
		a.unknown.drop(f)
		if a.flights[k] == f {
			delete(a.flights, k)
		}
	}
	a.unknown.leave(network)
}

func (a *Authenticator) newFlight(ctx context.Context, k key) *flight {
	f := &flight{done: make(chan struct{}), epoch: a.epoch.Load()}
	f.start = func() { go a.lookUp(ctx, k, f) }
	return f
}

// beginKnown begins the look-up of a token that was confirmed here: it does not queue. The caller holds a.mu.
func (a *Authenticator) beginKnown(k key, f *flight) {
	a.knownInFlight.Add(1)
	a.flights[k] = f
	f.start()
}

// startQueued begins the look-ups that there are slots for. The caller holds a.mu.
func (a *Authenticator) startQueued() {
	for f := a.unknown.next(a.settings.MaxLookUps); f != nil; f = a.unknown.next(a.settings.MaxLookUps) {
		f.start()
	}
}

// lookUp asks the identity service and lands the flight. It does not end with the context: who began the look-up may hang up while
// others wait for it. In a trace, it is a part of what who began it does.
func (a *Authenticator) lookUp(ctx context.Context, k key, f *flight) {
	ctx, cancel := context.WithTimeout(timings.Detach(context.WithoutCancel(ctx)), a.settings.LookUpTimeout)
	defer cancel()
	response, err := a.identity.ResolveToken(ctx, &identityv1.ResolveTokenRequest{TokenSha256: k[:]})
	e, err := a.judge(k, response, err)
	a.noteAvailability(ctx, err)

	a.mu.Lock()
	defer a.mu.Unlock()
	a.land(k, f, e, err)
	if f.unknown {
		a.unknown.done()
		a.startQueued()
	} else {
		a.knownInFlight.Add(-1)
	}
	close(f.done)
}

// judge says what the answer of the identity service means: an entry, or an error where it could not tell. Only NOT_FOUND
// refuses a token; every other failure says something of the service, not of the token, and so does an answer that breaks the contract.
func (a *Authenticator) judge(k key, response *identityv1.ResolveTokenResponse, err error) (*entry, error) {
	now := a.now()
	if status.Code(err) == codes.NotFound {
		if info := errorInfo(err); info.GetReason() == tokenRevoked {
			a.metrics.revoked.Inc()
			return a.revokedEntry(k, info.GetMetadata()[metadataTokenID]), nil
		}
		a.metrics.unknown.Inc()
		return refused(ErrUnknown, now, a.settings.NegativeFor), nil
	}
	if err != nil {
		a.metrics.unavailable.Inc()
		return nil, fmt.Errorf("%w: resolve a token: %w", ErrUnavailable, err)
	}
	principal, err := newPrincipal(response)
	a.contract.note(now, err)
	if err != nil {
		a.metrics.invalid.Inc()
		return nil, fmt.Errorf("resolve a token: %w", err)
	}
	a.metrics.resolved.Inc()
	return &entry{principal: principal, since: now, confirmed: now, keepUntil: now + a.settings.StaleFor}, nil
}

// refused makes the entry of a token that opens nothing, as the identity service says for the moment.
func refused(why error, now, keepFor time.Duration) *entry {
	return &entry{kind: unknown, refusal: why, since: now, confirmed: now, keepUntil: now + keepFor}
}

// revokedEntry makes the entry of a token that was revoked. Its ids are those that the identity service gives and that were cached before.
func (a *Authenticator) revokedEntry(k key, tokenID string) *entry {
	ids := &RevokedError{}
	if before, _, ok := a.entries.peek(k); ok {
		if known, ok := errors.AsType[*RevokedError](before.refusal); ok {
			*ids = *known
		} else if before.principal != nil {
			ids.TokenID, ids.TeamID = before.principal.TokenID, before.principal.TeamID
		}
	}
	if id, ok := CanonicalUUID(tokenID); ok {
		ids.TokenID = id
	}
	e := refused(ids, a.now(), a.settings.StaleFor)
	e.kind = revoked
	return e
}

// land gives the flight its end, and the cache what was learned. The caller holds a.mu.
func (a *Authenticator) land(k key, f *flight, e *entry, err error) {
	current := a.flights[k] == f
	if current {
		delete(a.flights, k)
	}
	switch known, _, ok := a.entries.peek(k); {
	case f.revoked:
		f.outcome = known
		if !ok {
			f.outcome = refused(&RevokedError{}, a.now(), a.settings.NegativeFor)
		}
		return // the revocation has seen to the cache
	case err == nil:
		f.outcome = e
	case ok && a.trusts(known):
		f.outcome = extended(known, a.now())
	default:
		f.failure = err
		return
	}
	f.outcome.epoch = f.epoch
	if current {
		a.entries.set(k, f.outcome)
	}
}

// trusts tells whether the entry may be used though the identity service cannot confirm it.
func (a *Authenticator) trusts(e *entry) bool {
	return e.principal == nil || a.now() < e.confirmed+a.settings.StaleFor
}

// extended is the entry with a little more time, for when the identity service cannot confirm it.
func extended(e *entry, now time.Duration) *entry {
	return &entry{
		kind: unconfirmed, principal: e.principal, refusal: e.refusal,
		since: now, confirmed: e.confirmed, keepUntil: e.keepUntil,
	}
}

// noteAvailability logs that the identity service stopped answering, or answers again.
func (m *memory) noteAvailability(ctx context.Context, err error) {
	if away := errors.Is(err, ErrUnavailable); m.identityAway.Swap(away) == away {
		return
	}
	if errors.Is(err, ErrUnavailable) {
		m.logger.WarnContext(ctx, "identity service cannot tell tokens; known ones are used for a while", slog.Any("error", err))
		return
	}
	m.logger.InfoContext(ctx, "identity service tells tokens again")
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
