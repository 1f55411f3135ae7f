package backendclient

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"

	"opsgate/internal/shares"
)

// A BreakerState is a state of a circuit breaker.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // calls are made
	BreakerOpen     BreakerState = "open"      // calls of failing teams are refused, except a few
	BreakerHalfOpen BreakerState = "half-open" // the same, and the results of calls close or open it
)

const (
	// minOutage is the time after which the breaker opens if all attempts fail, regardless of
	// earlier successes in the window. It is longer than it takes to replace an instance, and short
	// enough that the breaker opens within a second of an outage.
	minOutage = 500 * time.Millisecond
	// halfOpenSuccesses is the number of successes that close a half-open breaker.
	halfOpenSuccesses = 3
	// trialShare is the number of slots of a service for each that its breakers use while they are
	// not closed.
	trialShare = 10
)

// A BreakerStatus is the status of the breaker of a method. That of a service is the worst of its
// methods: open before half-open before closed, and of two in the same state the one that left the
// closed state first.
type BreakerStatus struct {
	State BreakerState `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"-"`
	// TrippedAt is when the breaker left the closed state; zero while it is closed. A half-open
	// breaker that opens again keeps it.
	TrippedAt time.Time `json:"-"`
	// HalfOpenAt is when an open breaker becomes half-open; zero in the other states.
	HalfOpenAt time.Time `json:"-"`
	// Cause is the failure that opened the breaker; "" while it is closed.
	Cause string `json:"cause,omitempty"`
	// Team is the only team whose calls are refused; "" if the breaker refuses those of all teams
	// whose calls fail, or none.
	Team string `json:"team,omitempty"`
	// Methods are the methods of the service whose breakers are not closed, in order, such as
	// "CreateIncident"; nil in the status of a method.
	Methods []string `json:"methods,omitempty"`
}

// concerns reports whether attempts of a team may be refused.
func (s *BreakerStatus) concerns(team string) bool {
	return s.State != BreakerClosed && (s.Team == "" || s.Team == team)
}

// A breaker refuses attempts of a method after too many have failed: the failures of the service
// reach a rate, or all attempts fail. It still allows those of teams without a failure in the
// window, and one of each other team every OpenFor, together on at most a tenth of the service's
// slots. If only attempts of one team are made and they fail, it refuses those of that team only.
type breaker struct {
	settings BreakerSettings
	trials   *shares.Pool // of the service, for what its breakers allow while they are not closed
	changed  func(b *breaker, reason string)
	status   atomic.Pointer[BreakerStatus]

	mu          sync.Mutex
	attribution attribution
	failing     failingTeams
	results     window // successes, and failures of the service
	successes   int    // of attempts that started since the breaker is half-open
}

func newBreaker(s BreakerSettings, trials *shares.Pool, changed func(b *breaker, reason string)) *breaker {
	now := time.Now()
	b := &breaker{
		settings: s, trials: trials, changed: changed,
		attribution: attribution{window: s.Window}, failing: newFailingTeams(s), results: newWindow(s.Window, now),
	}
	b.status.Store(&BreakerStatus{State: BreakerClosed, Since: now})
	return b
}

// do makes an attempt, or returns a *notMadeError.
func (b *breaker) do(c *call) error {
	if b.status.Load().State != BreakerClosed {
		isTrial, refused := b.admit(c)
		if refused != nil {
			return refused
		}
		if isTrial {
			defer b.trials.Release(c.team, 1)
		}
	}
	err := c.attempt()
	b.record(c, c.classify(err), err)
	return err
}

// admit returns the error of an attempt that the breaker refuses while it is not closed, and
// whether an allowed one has taken a slot of the trials.
func (b *breaker) admit(c *call) (isTrial bool, refused error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := c.attemptStart
	s := b.status.Load()
	if s.State == BreakerOpen && !now.Before(s.HalfOpenAt) {
		s = b.setState(BreakerStatus{State: BreakerHalfOpen, Since: now, Cause: s.Cause, Team: s.Team},
			fmt.Sprintf("it was open for %v", b.settings.OpenFor))
	}
	if !s.concerns(c.team) {
		return false, nil
	}
	if wait := b.failing.wait(c.team, now); wait > 0 {
		return false, newNotMadeError(ReasonBreakerOpen, wait, "the circuit breaker is "+string(s.State))
	}
	if b.trials.Take(c.team, 1, int64(max(1, c.settings.MaxInFlight/trialShare))) != shares.Taken {
		return false, newNotMadeError(ReasonBreakerOpen, 0,
			"the circuit breaker is "+string(s.State)+", and enough calls are in flight")
	}
	b.failing.tried(c.team, now)
	return true, nil
}

// refuses reports whether an attempt of a team would be refused now because its latest one failed.
func (b *breaker) refuses(team string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status.Load().concerns(team) && b.failing.wait(team, time.Now()) > 0
}

// record records the result of an attempt.
func (b *breaker) record(c *call, r result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r {
	case inconclusive:
		b.failing.untried(c.team, c.attemptStart)
	case success:
		b.recordSuccess(c)
	case teamFailure, serviceFailure:
		b.recordFailure(c, r == serviceFailure, err)
	}
}

func (b *breaker) recordSuccess(c *call) {
	now := time.Now()
	b.attribution.succeeded(c.team, c.attemptStart)
	b.failing.succeeded(c.team)
	b.results.add(now, true)
	if s := b.status.Load(); s.State != BreakerHalfOpen || c.attemptStart.Before(s.Since) {
		return
	}
	if b.successes++; b.successes == halfOpenSuccesses {
		b.setState(BreakerStatus{State: BreakerClosed, Since: now}, "attempts succeed")
	}
}

// recordFailure records a failure, and opens the breaker if failures are too many, or if it is
// half-open. If the breaker is open for another team only, it opens for all.
func (b *breaker) recordFailure(c *call, ofService bool, err error) {
	now := time.Now()
	b.failing.failed(c.team, c.attemptStart)
	if ofService {
		b.results.add(now, false)
	}
	owner, counts := b.attribution.failed(c.team, ofService, c.attemptStart, now)
	if !counts {
		return
	}
	s := b.status.Load()
	opens := false
	if s.State == BreakerClosed || s.Team != "" && s.Team != owner {
		opens = b.attribution.allFail(b.settings, now) || owner == "" && b.results.reach(b.settings, now)
		if s.State != BreakerClosed {
			owner = "" // another team's calls fail too
		}
	} else if s.State == BreakerHalfOpen {
		opens = !c.attemptStart.Before(s.Since)
	}
	if !opens {
		return
	}
	next := BreakerStatus{State: BreakerOpen, Since: now, HalfOpenAt: now.Add(b.settings.OpenFor), Cause: causeOf(err),
		Team: owner}
	reason := next.Cause
	if owner != "" {
		reason += "; only calls of team " + owner + " are refused"
	}
	b.setState(next, reason)
}

// setState sets and reports a status. It sets TrippedAt.
func (b *breaker) setState(next BreakerStatus, reason string) *BreakerStatus {
	switch before := b.status.Load(); {
	case next.State == BreakerClosed:
	case before.State == BreakerClosed:
		next.TrippedAt = next.Since
	default:
		next.TrippedAt = before.TrippedAt
	}
	b.successes, b.results = 0, newWindow(b.settings.Window, next.Since)
	b.status.Store(&next)
	b.changed(b, reason)
	return &next
}

// causeOf returns a failure as text for operators. It contains the service's own message.
func causeOf(err error) string {
	s := status.Convert(err)
	return s.Code().String() + ": " + truncate(s.Message(), maxMessage)
}
