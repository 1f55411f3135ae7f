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
}

// A Decision is what a store says of one request.
type Decision struct {
	Allowed    bool
	Denied     int           // index of the limit that keeps the request out longest; -1 when allowed
	RetryAfter time.Duration // until this token alone would be admitted by every limit; 0 when allowed
	At         time.Time     // when it was decided, by the store's clock
	Budgets    [MaxLimits]Budget

	serial uint64 // of the admission, so that it is given back once
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
