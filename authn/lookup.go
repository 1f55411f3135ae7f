package authn

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/waits"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// tokenRevoked is the ErrorInfo reason by which the identity service tells a revoked token from one that never was.
const tokenRevoked = "TOKEN_REVOKED"

// When a look-up fails, the first use of a known token after outagePause has it looked up again, and it is used without waiting
// for as long as that may take twice. So an outage costs a token in use no waiting at all, even where the service hangs, and
// the service gets at most a call a second for it.
const outagePause = time.Second

// A flight is one look-up and all who wait for it. It is not the cache's own loader, nor x/sync/singleflight, because a
// revocation must be able to reach a look-up under way: one that began before the revocation may land after it, and would
// put the revoked token back.
type flight struct {
	done     chan struct{} // closed once the flight has landed
	epoch    uint64        // when it began
	underWay *atomic.Int64 // what it counts among

	revoked bool // guarded by memory.mu: the token was revoked meanwhile

	// One of the two is set before done is closed.
	outcome *entry
	failure error
}

// join returns the look-up under way for the token, or begins one. It returns nil where the token is a stranger's, and as many
// strangers' as may be are being looked up. The caller holds a.mu.
func (a *Authenticator) join(ctx context.Context, k key) *flight {
	epoch := a.epoch.Load()
	if f, ok := a.flights[k]; ok && f.epoch == epoch {
		return f
	}
	f := &flight{done: make(chan struct{}), epoch: epoch, underWay: &a.underWay.known}
	if !a.entries.known(k) {
		if a.underWay.strangers.Load() >= int64(a.settings.MaxLookUps) {
			return nil
		}
		f.underWay = &a.underWay.strangers
	}
	f.underWay.Add(1)
	a.flights[k] = f
	go a.lookUp(ctx, k, f)
	return f
}

// lookUp asks the identity service and lands the flight. It does not end with the context: who began the look-up may hang up while
// others wait for it. In a trace, it is a part of what who began it does.
func (a *Authenticator) lookUp(ctx context.Context, k key, f *flight) {
	ctx, cancel := context.WithTimeout(waits.Apart(context.WithoutCancel(ctx)), a.settings.LookUpTimeout)
	defer cancel()
	response, err := a.identity.ResolveToken(ctx, &identityv1.ResolveTokenRequest{TokenSha256: k[:]})
	e, err := a.judge(response, err)
	a.noteAvailability(ctx, err)

	a.mu.Lock()
	defer a.mu.Unlock()
	a.land(k, f, e, err)
	f.underWay.Add(-1)
	close(f.done)
}

// judge says what the answer of the identity service means: an entry, or an error where it could not tell. Only NOT_FOUND
// refuses a token; every other failure says something of the service, not of the token.
func (a *Authenticator) judge(response *identityv1.ResolveTokenResponse, err error) (*entry, error) {
	now := a.now()
	if status.Code(err) == codes.NotFound {
		if reason(err) == tokenRevoked {
			a.metrics.revoked.Inc()
			return refused(ErrRevoked, now, a.settings.NegativeFor), nil
		}
		a.metrics.unknown.Inc()
		return refused(ErrUnknown, now, a.settings.NegativeFor), nil
	}
	var principal *Principal
	if err == nil {
		principal, err = newPrincipal(response)
	}
	if err != nil {
		a.metrics.unavailable.Inc()
		return nil, err
	}
	a.metrics.resolved.Inc()
	return &entry{principal: principal, since: now, confirmed: now, keepUntil: now + a.settings.StaleFor}, nil
}

// refused makes the entry of a token that opens nothing, as the identity service says for the moment.
func refused(why error, now, keepFor time.Duration) *entry {
	return &entry{kind: unknown, refusal: why, since: now, confirmed: now, keepUntil: now + keepFor}
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
			f.outcome = refused(ErrRevoked, a.now(), a.settings.NegativeFor)
		}
		return // the revocation has seen to the cache
	case err == nil:
		f.outcome = e
	case ok && a.trusts(known):
		f.outcome = extended(known, a.now())
	default:
		f.failure = fmt.Errorf("%w: resolve a token: %w", ErrUnavailable, err)
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
	if away := err != nil; m.identityAway.Swap(away) == away {
		return
	}
	if err != nil {
		m.logger.WarnContext(ctx, "identity service cannot tell tokens; known ones are used for a while", slog.Any("error", err))
		return
	}
	m.logger.InfoContext(ctx, "identity service tells tokens again")
}

// reason is the reason of the error's google.rpc.ErrorInfo, or "".
func reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
