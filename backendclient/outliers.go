package backendclient

import (
	"slices"
	"sync/atomic"
	"time"
)

// When an endpoint is ejected, and for how long.
const (
	// minFailures is the number of calls in a row that must fail. A single failed call, or a request that always fails, is no sign of a bad
	// endpoint.
	minFailures = 5
	// minFailuresAgain is that number for an endpoint whose ejection lasted its full time and that has not answered since: it failed before.
	minFailuresAgain = 1
	// minSuccesses is the number of calls that the other endpoints must have answered meanwhile: if they fail as well, the service fails as a
	// whole.
	minSuccesses = 5
	// maxFailureRatio is the ratio of failures to successes up to which the others count as working.
	maxFailureRatio = 0.1
	// ejectionUnit is the length of a first ejection. Each further one in a row is longer by that much.
	ejectionUnit = 10 * time.Second
	// maxEjectionUnits is the maximum length of an ejection: 5 minutes.
	maxEjectionUnits = 30
)

// outliers decides which endpoints are ejected: those whose calls all fail while the calls of others succeed. A member is in one of two
// states, in use or ejected:
//
//	in use  → ejected  its last minFailures calls failed (minFailuresAgain after an ejection whose time was over), the others work, and at
//	                   most half of the members are ejected afterwards
//	ejected → in use   its time is over, it loses its connection, or others do and more than half of the members would be ejected
//
// Members are the endpoints that are connected and healthy. The methods are not safe for concurrent use.
type outliers struct {
	unit    time.Duration // length of a first ejection
	members []*endpoint

	successes         atomic.Int64 // of all endpoints
	recoveredFailures int64        // failures of all endpoints that were followed by a success of the same endpoint
}

// A history is what outliers records of an endpoint.
type history struct {
	failures                atomic.Int32 // in a row
	onProbation             atomic.Bool  // its last ejection lasted its full time, and it has not answered since
	successesBefore         int64        // outliers.successes at the first of these failures, or at the end of the ejection
	recoveredFailuresBefore int64        // outliers.recoveredFailures at that time

	ejectedUntil time.Time // zero while in use
	ejectedFor   time.Duration
	ejections    int // in a row
	readmittedAt time.Time
}

func (h *history) isEjected() bool { return !h.ejectedUntil.IsZero() }

// needsSuccess reports whether a successful call changes the history: then endCall passes it to succeeded.
func (h *history) needsSuccess() bool { return h.failures.Load() > 0 || h.onProbation.Load() }

// succeeded records a successful call that followed a failed one, or an ejection.
func (s *outliers) succeeded(e *endpoint) {
	if !e.isEjected() { // else the call began before the ejection
		s.recoveredFailures += int64(e.failures.Swap(0))
		e.onProbation.Store(false)
	}
}

// failed records a failed call, and reports whether the endpoint is ejected for it.
func (s *outliers) failed(e *endpoint, now time.Time) (ejected bool) {
	if e.isEjected() || !slices.Contains(s.members, e) {
		return false // the call began before the ejection, or on a former connection
	}
	needed := int32(minFailures)
	if e.onProbation.Load() {
		needed = minFailuresAgain
	} else if e.failures.Load() == 0 {
		s.startComparison(e)
	}
	if e.failures.Add(1) < needed || !s.othersWork(e) || 2*(s.numEjected()+1) > len(s.members) {
		return false
	}
	if now.Sub(e.readmittedAt) >= e.ejectedFor { // it was in use for as long as it had been ejected
		e.ejections = 0
	}
	e.ejections++
	e.ejectedFor = min(time.Duration(e.ejections)*s.unit, maxEjectionUnits*s.unit)
	e.ejectedUntil = now.Add(e.ejectedFor)
	return true
}

// startComparison starts the period that othersWork reports on, at the present counters.
func (s *outliers) startComparison(e *endpoint) {
	e.successesBefore, e.recoveredFailuresBefore = s.successes.Load(), s.recoveredFailures
}

// othersWork reports whether calls to other endpoints succeeded since startComparison. The counters include
// all endpoints, but nothing of e since then: after a success of e, its next failure starts a new period. Failures of an endpoint count
// only once it succeeds (recoveredFailures): until then it may be an outlier too.
func (s *outliers) othersWork(e *endpoint) bool {
	successes, failures := s.successes.Load()-e.successesBefore, s.recoveredFailures-e.recoveredFailuresBefore
	return successes >= minSuccesses && float64(failures) <= maxFailureRatio*float64(successes)
}

func (s *outliers) numEjected() (n int) {
	for _, e := range s.members {
		if e.isEjected() {
			n++
		}
	}
	return n
}

// readmit ends an ejection.
func (h *history) readmit(now time.Time) {
	h.ejectedUntil, h.readmittedAt = time.Time{}, now
	h.failures.Store(0)
	h.onProbation.Store(false)
}

// setMembers replaces the members. It returns the endpoints whose ejection ends: those that are no longer members, and those that it
// readmits until at most half of the new members are ejected.
func (s *outliers) setMembers(members []*endpoint, now time.Time) (removed, readmitted []*endpoint) {
	for _, e := range s.members {
		if slices.Contains(members, e) {
			continue
		}
		if e.isEjected() {
			removed = append(removed, e)
			e.readmit(now)
		}
		e.failures.Store(0) // the next connection may be to another process
		e.onProbation.Store(false)
	}
	s.members = members
	for 2*s.numEjected() > len(members) {
		first := s.firstToExpire()
		first.readmit(now)
		readmitted = append(readmitted, first)
	}
	return removed, readmitted
}

// expire ends the ejections whose time is over, and returns their endpoints.
func (s *outliers) expire(now time.Time) (readmitted []*endpoint) {
	for e := s.firstToExpire(); e != nil && !now.Before(e.ejectedUntil); e = s.firstToExpire() {
		e.readmit(now)
		e.onProbation.Store(true)
		s.startComparison(e)
		readmitted = append(readmitted, e)
	}
	return readmitted
}

// firstToExpire returns the endpoint whose ejection ends first, or nil if none is ejected.
func (s *outliers) firstToExpire() (first *endpoint) {
	for _, e := range s.members {
		if e.isEjected() && (first == nil || e.ejectedUntil.Before(first.ejectedUntil)) {
			first = e
		}
	}
	return first
}
