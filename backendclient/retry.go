package backendclient

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/internal/timings"
)

const (
	// maxRetries is the largest RetrySettings.Max.
	maxRetries = 5
	// retryBackoff is the mean backoff before the first retry; it doubles with each retry.
	retryBackoff = 25 * time.Millisecond
	// retryCost is the cost of a retry, in units of the budget. A call that does not end as
	// Unavailable adds RetrySettings.Budget × retryCost units.
	retryCost = 1000
	// retryBurst is the capacity of the budget: ten retries, for the calls in flight when a
	// connection breaks. A call whose retries all fail empties the budget, because most often the
	// whole service is down.
	retryBurst = 10 * retryCost
)

// callWithRetries makes a call, and retries it while that is safe and the budget allows it.
//
// gRPC itself immediately retries calls of any method that never reached a server. Such a retry
// belongs to the same attempt here.
func (u *upstream) callWithRetries(c *call) error {
	err := c.attempt()
	n := 0
	for ; err != nil && n < c.settings.Retries.Max && c.retryable(err); n++ {
		if !u.budget.withdraw() {
			u.metrics.withheld.Inc()
			break
		}
		if !sleep(&c.ctx, retryDelay(n)) {
			break
		}
		u.metrics.retries.Inc()
		timings.FromContext(&c.ctx).AddRetry()
		c.attemptStart = time.Now()
		next := c.attempt()
		if status.Code(next) == codes.Aborted {
			return err // an earlier attempt is still in progress in the service: return the previous error
		}
		err = next
	}
	switch {
	case status.Code(err) != codes.Unavailable:
		u.budget.deposit(c.settings.Retries.Budget)
	case n > 0 && n == c.settings.Retries.Max && c.retryable(err):
		u.budget.empty()
	}
	return err
}

// retryable reports whether a retry may succeed and is safe.
func (c *call) retryable(err error) bool {
	_, shed := err.(*shedError) //nolint:errorlint // made by this package, not wrapped
	if shed || c.ctx.Err() != nil {
		return false
	}
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && !hasRetryInfo(s) && (c.method.readOnly || hasIdempotencyKey(c.request))
}

// hasRetryInfo reports whether the service specifies when to retry.
func hasRetryInfo(s *status.Status) bool {
	return slices.ContainsFunc(s.Details(), func(detail any) bool {
		_, ok := detail.(*errdetails.RetryInfo)
		return ok
	})
}

// hasIdempotencyKey reports whether the service performs the write once, however often it is sent.
func hasIdempotencyKey(request any) bool {
	keyed, ok := request.(interface{ GetIdempotencyKey() string })
	return ok && keyed.GetIdempotencyKey() != ""
}

// isReadOnly reports whether the first word of a method's name is a verb that changes nothing. Any
// other method counts as a write.
func isReadOnly(method string) bool {
	return slices.ContainsFunc([]string{"Get", "List", "Resolve"},
		func(verb string) bool { return strings.HasPrefix(method, verb) })
}

// retryDelay returns the wait before retry n, counted from 0: half to one and a half times the
// mean, so that callers that failed together do not retry together.
func retryDelay(n int) time.Duration {
	mean := retryBackoff << n
	return mean/2 + rand.N(mean)
}

// sleep waits, and reports whether it waited to the end. It returns when ctx ends, and at once if
// the deadline of ctx is before the end of the wait.
func sleep(ctx context.Context, wait time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// A retryBudget limits retries to a ratio of the calls that do not end as Unavailable, to avoid
// retry storms. It begins full.
type retryBudget struct {
	spent atomic.Int64 // 0 for a full budget, retryBurst for an empty one
}

// deposit adds the share of a call to the budget. A concurrent deposit may be lost, which only
// lowers the number of retries.
func (b *retryBudget) deposit(ratio float64) {
	if spent := b.spent.Load(); spent > 0 {
		b.spent.CompareAndSwap(spent, max(0, spent-int64(ratio*retryCost)))
	}
}

// withdraw takes the cost of a retry from the budget, and reports whether the budget was
// sufficient.
func (b *retryBudget) withdraw() bool {
	for {
		spent := b.spent.Load()
		if spent+retryCost > retryBurst {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+retryCost) {
			return true
		}
	}
}

func (b *retryBudget) empty() { b.spent.Store(retryBurst) }
