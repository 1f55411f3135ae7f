package breaker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/internal/shares"
)

// A State is a state of a circuit breaker.
type State string

// The states of a breaker.
const (
	Closed   State = "closed"    // attempts are made
	Open     State = "open"      // attempts of failing teams are refused, except a few
	HalfOpen State = "half-open" // like open, but the results of attempts close or open the breaker
)

const (
	// minOutage is the time after which the breaker opens if all attempts fail, regardless of
	// earlier successes in the window. It is longer than it takes to replace an instance, and short
	// enough that the breaker opens within a second of an outage.
	minOutage = 500 * time.Millisecond
	// halfOpenSuccesses is the number of successes that close a half-open breaker.
	halfOpenSuccesses = 3
	// trialDivisor limits trials: the attempts that breakers which are not closed still allow use at
	// most 1/trialDivisor of the service's slots. Attempts of other teams than the one that a
	// breaker is open for are no trials.
	trialDivisor = 10
)

// A Status is the status of the breaker of a method. The status of a service is the worst status of
// its methods: open before half-open before closed. Of two breakers in the same state, the worse is
// the one that left the closed state first.
type Status struct {
	State State `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"-"`
	// TrippedAt is when the breaker left the closed state; zero while it is closed. It does not
	// change when a half-open breaker opens again.
	TrippedAt time.Time `json:"-"`
	// HalfOpenAt is when an open breaker becomes half-open; zero in the other states.
	HalfOpenAt time.Time `json:"-"`
	// Cause is the failure that opened the breaker; "" while it is closed.
	Cause string `json:"cause,omitempty"`
	// Team is the only team whose attempts are refused; "" if the breaker refuses attempts of all
	// failing teams, or is closed.
	Team string `json:"team,omitempty"`
	// Methods are the methods of the service whose breakers are not closed, in order, such as
	// "CreateIncident"; nil in the status of a method.
	Methods []string `json:"methods,omitempty"`
}

// mayRefuse reports whether the breaker refuses attempts of a team while the team is failing.
func (s *Status) mayRefuse(team string) bool {
	return s.State != Closed && (s.Team == "" || s.Team == team)
}

// A Result is what an attempt shows of the service.
type Result int

// The results of attempts.
const (
	// Success includes attempts that the service rejects for their content.
	Success Result = iota
	// Inconclusive is neither a success nor a failure.
	Inconclusive
	// TeamFailure is a failure that the data of the team may cause.
	TeamFailure
	// ServiceFailure is a failure that no data causes.
	ServiceFailure
)

// An Attempt identifies an attempt of a call.
type Attempt struct {
	Team  string // "" for none
	Start time.Time
	// Slots is the limit of calls to the service in flight.
	Slots int
}

// A RefusedError is the error of an attempt that a breaker has refused.
type RefusedError struct {
	RetryAfter time.Duration // until the team may make an attempt; 0 if unknown
	text       string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.text }

// A Breaker refuses attempts of a method after too many have failed: the failures of the service
// reach a rate, or all attempts fail. It still allows attempts of teams without a failure in the
// window, and one attempt of each failing team every OpenFor. Together these use at most a tenth of
// the service's slots. A breaker that is open for one team, whose calls alone fail, does not limit
// the attempts of others.
type Breaker struct {
	service *Breakers
	method  string
	status  atomic.Pointer[Status]
	resets  atomic.Int64 // changed with mu held

	mu          sync.Mutex
	settings    Settings
	attribution attribution
	failing     failingTeams
	results     window // successes, and failures of the service
	successes   int    // of attempts that started in the half-open state
}

// reset closes the breaker. The caller holds b.mu.
func (b *Breaker) reset(s Settings, reason string) {
	b.resets.Add(1)
	b.settings, b.attribution, b.failing = s, attribution{window: s.Window}, newFailingTeams(s)
	b.setState(Status{State: Closed, Since: time.Now()}, reason)
}

// Do calls attempt and records its result, unless the breaker refuses the attempt with a
// *[RefusedError].
func (b *Breaker) Do(a Attempt, attempt func() (Result, error)) error {
	resets := b.resets.Load()
	if b.status.Load().State != Closed {
		isTrial, refused := b.admit(a)
		if refused != nil {
			return refused
		}
		if isTrial {
			defer b.service.trials.Release(a.Team, 1)
		}
	}
	r, err := attempt()
	b.record(a, resets, r, err)
	return err
}

// admit decides an attempt while the breaker is not closed. refused is the error of a refused
// attempt. isTrial reports whether an allowed attempt holds one of the slots for trials.
func (b *Breaker) admit(a Attempt) (isTrial bool, refused error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status.Load()
	if s.State == Open && !a.Start.Before(s.HalfOpenAt) {
		s = b.setState(Status{State: HalfOpen, Since: a.Start, Cause: s.Cause, Team: s.Team},
			fmt.Sprintf("it was open for %v", b.settings.OpenFor))
	}
	if !s.mayRefuse(a.Team) {
		return false, nil
	}
	if wait := b.failing.wait(a.Team, a.Start); wait > 0 {
		return false, &RefusedError{wait, "the circuit breaker is " + string(s.State)}
	}
	if b.service.trials.Take(a.Team, 1, int64(max(1, a.Slots/trialDivisor))) != shares.Taken {
		return false, &RefusedError{0, "the circuit breaker is " + string(s.State) + ", and enough calls are in flight"}
	}
	b.failing.tried(a.Team, a.Start)
	return true, nil
}

// Refuses reports whether an attempt of a team would be refused now because its latest attempt
// failed.
func (b *Breaker) Refuses(team string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status.Load().mayRefuse(team) && b.failing.wait(team, time.Now()) > 0
}

// record records the result of an attempt, unless the breaker was reset after it started.
func (b *Breaker) record(a Attempt, resets int64, r Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case resets != b.resets.Load():
	case r == Inconclusive:
		b.failing.undo(a.Team, a.Start)
	case r == Success:
		b.recordSuccess(a)
	default:
		b.recordFailure(a, r == ServiceFailure, err)
	}
}

func (b *Breaker) recordSuccess(a Attempt) {
	now := time.Now()
	b.attribution.succeeded(a.Team, a.Start)
	b.failing.succeeded(a.Team)
	b.results.add(now, true)
	if s := b.status.Load(); s.State != HalfOpen || a.Start.Before(s.Since) {
		return
	}
	if b.successes++; b.successes == halfOpenSuccesses {
		b.setState(Status{State: Closed, Since: now}, "attempts succeed")
	}
}

// recordFailure records a failure. It opens the breaker if there are too many failures, or if the
// breaker is half-open. If the breaker is open for another team only, it opens for all teams.
func (b *Breaker) recordFailure(a Attempt, ofService bool, err error) {
	now := time.Now()
	b.failing.failed(a.Team, a.Start)
	if ofService {
		b.results.add(now, false)
	}
	owner, counts := b.attribution.failed(a.Team, ofService, a.Start, now)
	if !counts {
		return
	}
	s := b.status.Load()
	opens := false
	if s.State == Closed || s.Team != "" && s.Team != owner {
		opens = b.attribution.allFail(b.settings, a.Start, now) || owner == "" && b.results.reach(b.settings, now)
		if s.State != Closed {
			owner = "" // another team's attempts fail too
		}
	} else if s.State == HalfOpen {
		opens = !a.Start.Before(s.Since)
	}
	if !opens {
		return
	}
	next := Status{
		State: Open, Since: now, HalfOpenAt: now.Add(b.settings.OpenFor), Cause: b.service.options.Describe(err), Team: owner,
	}
	reason := next.Cause
	if owner != "" {
		reason += "; only calls of team " + owner + " are refused"
	}
	b.setState(next, reason)
}

// setState stores a status and sets its TrippedAt. It reports the status unless the breaker remains
// closed. The caller holds b.mu.
func (b *Breaker) setState(next Status, reason string) *Status {
	before := b.status.Load()
	switch {
	case next.State == Closed:
	case before.State == Closed:
		next.TrippedAt = next.Since
	default:
		next.TrippedAt = before.TrippedAt
	}
	b.successes, b.results = 0, newWindow(b.settings.Window, next.Since)
	b.status.Store(&next)
	if next.State != Closed {
		time.AfterFunc(b.settings.OpenFor+b.settings.Window, func() { b.closeUnused(&next) })
	}
	if next.State != Closed || before.State != Closed {
		b.service.report(b, next.State, reason)
	}
	return &next
}

// closeUnused closes a breaker whose status is still s: its failures have left the window, and too
// few attempts followed to close or reopen it. Otherwise a rarely called method would be reported
// as failing until its next call.
func (b *Breaker) closeUnused(s *Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s == b.status.Load() && !b.service.closed.Load() { // each change stores a new status
		b.reset(b.settings, "its failures are older than its window")
	}
}
