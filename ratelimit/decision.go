package ratelimit

import (
	"context"
	"time"
)

// A Store keeps the accounts of tokens. Implementations are safe for concurrent use, and all pass
// the suite in ratelimittest.
type Store interface {
	// Decide admits a request of the token and records it in every window of the account, or denies
	// it and records nothing. The policy may differ from that of other calls, by this gateway or
	// others: usage is shared. An error means that the store could not decide. A request that the
	// policy blocks is denied without the account, also while the store is not available.
	Decide(ctx context.Context, tokenID string, p *Policy) (Decision, error)

	// Refund removes the admission of d from each window that still counts an admission with the
	// same time. It must be called at most once for a decision. For a denial it does nothing.
	Refund(ctx context.Context, tokenID string, d Decision) error

	// Peek returns the decision that Decide would make, and records nothing: its budgets do not
	// include the request. Its decision must not be refunded. If the account lacks a window of the
	// policy, waits may be too short: Peek fills it from what the account has now, and Decide
	// later, when admissions of a bucket count as of a later time.
	Peek(ctx context.Context, tokenID string, p *Policy) (Decision, error)

	// Reset drops the token's account.
	Reset(ctx context.Context, tokenID string) error
}

// A Decision is a store's answer to one request.
type Decision struct {
	Allowed  bool
	DeniedBy int // index of the full enforced limit with the longest wait; -1 when allowed
	// when allowed: index of the full limit in shadow with the longest wait; else, or if none is
	// full, -1
	ShadowDeniedBy int
	// until every enforced limit admits a request, if the token makes no other, or the length of a
	// limit of 0 requests; 0 when allowed
	RetryAfter time.Duration
	At         time.Time // time of the decision, by the store's clock
	Budgets    [MaxLimits]Budget

	Local  bool // decided by this gateway, without the shared store
	Cached bool // a denial that still applies, repeated without a call of the shared store
}

// A Budget is the state of one limit after the decision.
type Budget struct {
	Remaining int
	Reset     time.Duration // until Remaining increases; 0 if the whole limit remains
}

// An UnavailableError is the error of a store that cannot decide at present.
type UnavailableError struct {
	RetryAfter time.Duration // until a retry may succeed
	Cause      error
}

// Error returns the cause for the log.
func (e *UnavailableError) Error() string {
	return "the rate limit store is not available: " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// A Mode is a way to decide requests. Gateways that share a store are in [ModeShared] while it is
// in use. While it is not, they are in the configured one of [ModeLocal], [ModeAllow] and
// [ModeDeny].
type Mode string

// The modes.
const (
	ModeMemory Mode = "memory" // the memory of the only gateway
	ModeShared Mode = "shared" // the store that gateways share
	ModeLocal  Mode = "local"  // each gateway, by its share of each limit
	ModeAllow  Mode = "allow"  // no store: every request is admitted, and not counted
	ModeDeny   Mode = "deny"   // no store: every request fails with an *[UnavailableError]
)
