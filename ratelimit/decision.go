package ratelimit

import (
	"context"
	"time"
)

// A Store remembers what tokens spent. Implementations are safe for concurrent use, and all pass the suite in
// ratelimittest.
type Store interface {
	// Decide admits a request of the token, and then spends it in every limit of the policy, or refuses it and spends
	// nothing. The policy may be another one from call to call: what was spent stays counted. An error means that the
	// store could not tell.
	Decide(ctx context.Context, tokenID string, p *Policy) (Decision, error)

	// Refund gives back what the decision spent, where that still counts. It is to be called once for a decision: a store knows
	// of no more than a token's newest admissions, at least 128, whether they were given back before. For a refusal it does
	// nothing, and for what was spent before the store's clock was set back.
	Refund(ctx context.Context, tokenID string, p *Policy, d Decision) error

	// Peek says what Decide would, and spends nothing: the budgets are those before the request. Its decision cannot be
	// given back.
	Peek(ctx context.Context, tokenID string, p *Policy) (Decision, error)

	// Reset forgets all that the token spent.
	Reset(ctx context.Context, tokenID string) error
}

// A Decision is what a store says of one request.
type Decision struct {
	Allowed    bool
	Denied     int           // index of the enforced limit that keeps the request out longest; -1 when allowed
	Shadowed   int           // index of the shadow limit that would keep an admitted request out longest; -1 for none
	RetryAfter time.Duration // until this token alone would be admitted by every enforced limit; 0 when allowed
	At         time.Time     // when it was decided, by the store's clock
	Budgets    [MaxLimits]Budget

	Serial uint64 // of the admission, for its store: it is given back once
	Local  bool   // decided by this process alone, as the store that gateways share was away
	Cached bool   // a refusal that still holds, repeated without asking the store
}

// A Budget is what is left of one limit after the decision.
type Budget struct {
	Remaining int
	Reset     time.Duration // until more than Remaining are left; 0 when all are
}

// RetryAfterSeconds returns RetryAfter in whole seconds, rounded up and at least 1, as the retry-after header has it
// (RFC 9110, section 10.2.3).
func (d Decision) RetryAfterSeconds() int {
	return max(1, int((d.RetryAfter+time.Second-1)/time.Second))
}

// An UnavailableError says that a store cannot tell, and may again in a while.
type UnavailableError struct {
	RetryAfter time.Duration // when to ask again
	Cause      error
}

// Error returns the cause for the log.
func (e *UnavailableError) Error() string { return "the store of budgets is away: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }
