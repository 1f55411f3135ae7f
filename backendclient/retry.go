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

	"opsgate/backendclient/timings"
)

// persist makes a call, and makes it again while that may help, is safe, and is within the budget.
//
// A call that never reached a server is tried again by the library at once, whatever it is; persist does not see that.
func (g *guard) persist(a *attempt) error {
	retries := &a.under.Retries
	g.budget.earn(retries.Budget)
	err := g.once(a)
	for n := 0; err != nil && n < retries.Max && worthRepeating(a, err); n++ {
		if !g.budget.spend() {
			g.metrics.withheld.Inc()
			break
		}
		if !pause(a.ctx, backoffOf(retries.Backoff, n)) {
			break
		}
		g.metrics.retries.Inc()
		timings.FromContext(a.ctx).AddRetry()
		failed := g.once(a)
		if status.Code(failed) == codes.Aborted {
			return err // the service is still at work on what we sent first: the client is told what became of that
		}
		err = failed
	}
	return err
}

// worthRepeating tells whether another attempt may do better, and does no harm.
func worthRepeating(a *attempt, err error) bool {
	if _, ours := err.(*refusal); ours || a.ctx.Err() != nil { //nolint:errorlint // ours, and not wrapped
		return false
	}
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && !asksForPeace(s) && (a.call.reads || hasKey(a.request))
}

// asksForPeace tells a service that says itself when it wants to be asked again.
func asksForPeace(s *status.Status) bool {
	return slices.ContainsFunc(s.Details(), func(detail any) bool {
		_, ok := detail.(*errdetails.RetryInfo)
		return ok
	})
}

// hasKey tells a write that the service does once, however often it comes.
func hasKey(request any) bool {
	keyed, ok := request.(interface{ GetIdempotencyKey() string })
	return ok && keyed.GetIdempotencyKey() != ""
}

// reads tells by the first word of a method's name that it changes nothing. A name that says nothing is taken for a write.
func reads(method string) bool {
	return slices.ContainsFunc([]string{"Get", "List", "Resolve"}, func(verb string) bool { return strings.HasPrefix(method, verb) })
}

// backoffOf returns how long to wait before the repetition n, from 0: half to one and a half times a time that doubles, so that
// callers who failed together do not come back together.
func backoffOf(base time.Duration, n int) time.Duration {
	base <<= n
	return base/2 + rand.N(base)
}

// pause waits. It returns false where the call ends sooner, at once if that is known before.
func pause(ctx context.Context, wait time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	// maxRetries is how often a call can be tried again at most.
	maxRetries = 5
	// A retry costs a thousand; a call earns its part of that.
	retryCost = 1000
	// reserve is how many retries may come at once: the calls that were under way on a connection which was cut.
	reserve = 10 * retryCost
)

// A budget bounds retries to a part of calls, so that a service in trouble is not given more of it. It is full to begin with.
type budget struct{ spent atomic.Int64 }

// earn adds what a call is worth. What two calls earn in the same instant may be counted once: a budget errs to the careful side.
func (b *budget) earn(part float64) {
	if spent := b.spent.Load(); spent > 0 {
		b.spent.CompareAndSwap(spent, max(0, spent-int64(part*retryCost)))
	}
}

// spend takes a retry, if there is one left.
func (b *budget) spend() bool {
	for {
		spent := b.spent.Load()
		if spent+retryCost > reserve {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+retryCost) {
			return true
		}
	}
}
