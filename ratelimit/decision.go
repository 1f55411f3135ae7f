package ratelimit

import (
	"context"
	"time"
)

// A Store keeps the accounts of tokens. Implementations are safe for concurrent use, and all pass the suite in ratelimittest.
type Store interface {
	// Decide admits a request of the token and records it in every limit of the policy, or denies it and records
	// nothing. The policy may be another one from call to call: usage is kept. An error means that the store could not decide.
	Decide(ctx context.Context, tokenID string, p *Policy) (Decision, error)

	// Refund takes an admission out of each limit that still counts one of its time. It must be called at most once for a decision.
	// For a denial it does nothing.
	Refund(ctx context.Context, tokenID string, p *Policy, d Decision) error

	// Peek returns what Decide would, and records nothing: the budgets are those before the request. Its decision must not be refunded.
	Peek(ctx context.Context, tokenID string, p *Policy) (Decision, error)

	// Reset drops the token's account.
	Reset(ctx context.Context, tokenID string) error
}

// A Decision is a store's answer to one request.
type Decision struct {
	Allowed    bool
	Denied     int           // index of the enforced limit that keeps the request out longest; -1 when allowed
	Shadowed   int           // index of the shadow limit that would keep an admitted request out longest; -1 for none
	RetryAfter time.Duration // until this token alone would be admitted by every enforced limit; 0 when allowed
	At         time.Time     // when it was decided, by the store's clock
	Budgets    [MaxLimits]Budget

	Local  bool // decided by this gateway alone, as the shared store was not available
	Cached bool // a denial that still holds, repeated without asking the shared store
}

// A Budget is what is left of one limit after the decision.
type Budget struct {
	Remaining int
	Reset     time.Duration // until more than Remaining are left; 0 when all are
}

// An UnavailableError is the error of a store that cannot decide at present.
type UnavailableError struct {
	RetryAfter time.Duration // when to ask again
	Cause      error
}

// Error returns the cause for the log.
func (e *UnavailableError) Error() string {
	return "the rate limit store is not available: " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }
