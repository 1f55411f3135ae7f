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
	// minSuccesses is the number of calls that the other endpoints must have answered meanwhile: if they fail as well, the service fails as a
	// whole.
	minSuccesses = 5
	// maxFailureRatio is the ratio of failures to successes up to which the others count as working.
	maxFailureRatio = 0.1
	// ejectionUnit is the length of a first ejection. Each further one in a row is longer by that much.
	ejectionUnit = 10 * time.Second
	// maxEjections is the number of ejections in a row from which on they do not become longer: 5 minutes.
	maxEjections = 30
)

// outliers decides which endpoints are ejected: those whose calls all fail while the calls of others succeed. A member is in one of two
// states, in use or ejected:
//
//	in use  → ejected  its last minFailures calls failed, the others work, and at most half of the members are ejected afterwards
//	ejected → in use   its time is over, it loses its connection, or others do and more than half of the members would be ejected
//
// Members are the endpoints that are connected and healthy. The methods are not safe for concurrent use.
type outliers struct {
	unit    time.Duration // length of a first ejection
	members []*endpoint

	successes         atomic.Int64 // of all endpoints
	recoveredFailures int64        // failures of endpoints that have succeeded again
}

// A history is what outliers records of an endpoint.
type history struct {
	failures         atomic.Int32 // in a row
	successesBefore  int64        // outliers.successes at the first of these failures
	recoveriesBefore int64        // outliers.recoveredFailures at the first of these failures

	ejectedUntil time.Time // zero while in use
	ejectedFor   time.Duration
	ejections    int // in a row
	readmittedAt time.Time
}

func (h *history) isEjected() bool { return !h.ejectedUntil.IsZero() }

// succeeded records a successful call that followed a failed one.
func (s *outliers) succeeded(e *endpoint) {
	if !e.isEjected() { // else the call began before the ejection
		s.recoveredFailures += int64(e.failures.Swap(0))
	}
}

// failed records a failed call, and reports whether the endpoint is ejected for it.
func (s *outliers) failed(e *endpoint, now time.Time) (ejected bool) {
	if e.isEjected() || !slices.Contains(s.members, e) {
		return false // the call began before the ejection, or on a former connection
	}
	if e.failures.Load() == 0 {
		e.successesBefore, e.recoveriesBefore = s.successes.Load(), s.recoveredFailures
	}
	if e.failures.Add(1) < minFailures || !s.othersWork(e) || 2*(s.numEjected()+1) > len(s.members) {
		return false
	}
	if now.Sub(e.readmittedAt) >= e.ejectedFor { // it was in use for as long as it had been ejected
		e.ejections = 0
	}
	e.ejections++
	e.ejectedFor = min(time.Duration(e.ejections)*s.unit, maxEjections*s.unit)
	e.ejectedUntil = now.Add(e.ejectedFor)
	return true
}

// othersWork reports whether calls to other endpoints succeeded since the first of the endpoint's failures in a row. Endpoints that only
// fail do not count: they may be outliers as well.
func (s *outliers) othersWork(e *endpoint) bool {
	successes, failures := s.successes.Load()-e.successesBefore, s.recoveredFailures-e.recoveriesBefore
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
}

// setMembers replaces the members. It returns the endpoints whose ejection ends: those that are no members any more, and those because of
// which more than half of the members would be ejected.
func (s *outliers) setMembers(members []*endpoint, now time.Time) (removed, tooMany []*endpoint) {
	for _, e := range s.members {
		if slices.Contains(members, e) {
			continue
		}
		if e.isEjected() {
			removed = append(removed, e)
			e.readmit(now)
		}
		e.failures.Store(0) // the next connection may be to another process
	}
	s.members = members
	for 2*s.numEjected() > len(members) {
		first := s.firstToExpire()
		first.readmit(now)
		tooMany = append(tooMany, first)
	}
	return removed, tooMany
}

// expire ends the ejections whose time is over, and returns their endpoints.
func (s *outliers) expire(now time.Time) (readmitted []*endpoint) {
	for e := s.firstToExpire(); e != nil && !now.Before(e.ejectedUntil); e = s.firstToExpire() {
		e.readmit(now)
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
