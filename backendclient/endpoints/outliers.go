package endpoints

import (
	"slices"
	"time"
)

// When an endpoint is ejected, and for how long.
const (
	// minFailures is the number of calls in a row that must fail. A single failed call, or a
	// request that always fails, is no sign of a bad endpoint.
	minFailures = 5
	// minFailuresAgain replaces minFailures for an endpoint on probation: its last ejection lasted
	// its full time, and no call to it has succeeded since.
	minFailuresAgain = 1
	// minSuccesses is the number of calls of the same teams that must have succeeded at other
	// endpoints since the failures began.
	minSuccesses = 5
	// maxFailureRatio is the maximum ratio of failures to successes at other endpoints for which
	// the calls of a team count as succeeding there.
	maxFailureRatio = 0.1
	// successesBefore is how many calls of a team, for each failed call to an endpoint, must
	// succeed at other endpoints before the endpoint gets a call of the team again. So a call that
	// fails because of the team's data soon fails at another endpoint too, even if the team makes
	// it at regular intervals among calls that succeed.
	successesBefore = 20
	// maxSilence is how long an endpoint may answer no call while other endpoints answer calls of
	// the same team.
	maxSilence = time.Second
	// ejectionUnit is the length of a first ejection. Each further ejection in a row is longer by a
	// unit.
	ejectionUnit = 10 * time.Second
	// maxEjectionUnits is the maximum length of an ejection: 5 minutes.
	maxEjectionUnits = 30
	// maxTeams is the maximum number of teams in memory for each endpoint.
	maxTeams = 1024
)

// outliers ejects endpoints whose calls fail while calls of the same teams to other endpoints
// succeed, so that the data of a team is not the cause. A member is either in use or ejected:
//
//	in use  → ejected  minFailures calls (minFailuresAgain after an ejection whose time was over) have
//	                   failed since its latest success, of teams whose calls other endpoints answer,
//	                   and at most half of the members are ejected afterwards
//	ejected → in use   its time is over, it loses its connection, or others do and more than half of
//	                   the members would be ejected
//
// Besides, a silent member gets no new calls. A member becomes silent when it has answered no call
// for maxSilence although another endpoint answers calls of the same team. The silence ends when
// the member answers a call or a probe.
//
// Members are the endpoints that are connected and healthy. The methods are not safe for concurrent
// use.
type outliers struct {
	unit    time.Duration // length of a first ejection
	members []*Endpoint
}

// A history is the part of an endpoint that outliers keeps.
type history struct {
	calls       map[string]teamCalls // by team, since the endpoint's latest success; of at most maxTeams
	onProbation bool                 // the last ejection lasted its full time, and no call has succeeded since
	answeredAt  time.Time            // zero for never
	silence     silence
	lastFailure error

	ejectedUntil time.Time // zero while in use
	ejectedFor   time.Duration
	ejections    int // in a row
	readmittedAt time.Time
}

// A silence is whether an endpoint is silent.
type silence int

// The kinds of silence.
const (
	noSilence silence = iota // it answers
	suspected                // calls got no answer, perhaps because of a team's data: the endpoint is probed
	confirmed                // the probe got no answer either
)

// teamCalls counts the failed calls of a team to an endpoint, and the calls of the team to other
// endpoints since the first failure.
type teamCalls struct {
	unanswered time.Time // when the first call after the latest answer of the endpoint began
	failures   int

	successesElsewhere, failuresElsewhere int
}

// succeedElsewhere reports whether calls of the team to other endpoints succeed.
func (c teamCalls) succeedElsewhere() bool {
	return c.successesElsewhere > 0 && float64(c.failuresElsewhere) <= maxFailureRatio*float64(c.successesElsewhere)
}

// preferOthers reports whether the team's next calls go to other endpoints, to show whether they
// fail there too.
func (c teamCalls) preferOthers() bool {
	return c.failures > 0 && c.failuresElsewhere == 0 && c.successesElsewhere < successesBefore*c.failures
}

func (h *history) isEjected() bool { return !h.ejectedUntil.IsZero() }

// began records that a call began.
func (h *history) began(team string, now time.Time) {
	if calls := h.calls[team]; !calls.unanswered.After(h.answeredAt) {
		calls.unanswered = now
		h.set(team, calls)
	}
}

// set replaces the calls of a team, unless too many teams are in memory.
func (h *history) set(team string, calls teamCalls) {
	if h.calls == nil {
		h.calls = make(map[string]teamCalls)
	}
	if _, recorded := h.calls[team]; recorded || len(h.calls) < maxTeams {
		h.calls[team] = calls
	}
}

// endedWithoutResult records that a call ended neither as a success nor as a failure.
func (h *history) endedWithoutResult(team string) {
	if calls := h.calls[team]; calls.failures > 0 {
		calls.unanswered = time.Time{}
		h.calls[team] = calls
	} else {
		delete(h.calls, team)
	}
}

// answered records an answer to a call or to a probe, and returns the previous silence.
func (h *history) answered(now time.Time) (before silence) {
	before, h.silence, h.answeredAt = h.silence, noSilence, now
	return before
}

// succeeded records a successful call. It returns the endpoints that are now suspected of silence,
// and the endpoints that are now ejected.
func (s *outliers) succeeded(e *Endpoint, team string, began, now time.Time) (silent, ejected []*Endpoint) {
	for _, other := range s.members {
		calls, called := other.calls[team]
		if other == e || !called {
			continue
		}
		if other.silence == noSilence && calls.unanswered.After(other.answeredAt) &&
			began.After(calls.unanswered) && now.Sub(calls.unanswered) >= maxSilence {
			other.silence = suspected
			silent = append(silent, other)
		}
		if calls.failures > 0 {
			calls.successesElsewhere++
			other.calls[team] = calls
			ejected = s.eject(ejected, other, now)
		}
	}
	if !e.isEjected() { // else the call began before the ejection
		e.onProbation = false
		clear(e.calls)
	}
	return silent, ejected
}

// failed records a failed call, and returns the endpoint if the failure ejects it.
func (s *outliers) failed(e *Endpoint, team string, now time.Time) (ejected []*Endpoint) {
	if e.isEjected() || !slices.Contains(s.members, e) {
		return nil // the call began before the ejection, or on a former connection
	}
	for _, other := range s.members {
		if calls := other.calls[team]; other != e && calls.failures > 0 {
			calls.failuresElsewhere++
			other.calls[team] = calls
		}
	}
	calls := e.calls[team]
	calls.failures++
	e.set(team, calls)
	return s.eject(nil, e, now)
}

// eject ejects an endpoint if it is an outlier, and appends it to ejected.
func (s *outliers) eject(ejected []*Endpoint, e *Endpoint, now time.Time) []*Endpoint {
	if e.isEjected() || !e.failsAlone() || 2*(s.numEjected()+1) > len(s.members) {
		return ejected
	}
	if now.Sub(e.readmittedAt) >= e.ejectedFor { // it was in use for as long as it had been ejected
		e.ejections = 0
	}
	e.ejections++
	e.ejectedFor = min(time.Duration(e.ejections)*s.unit, maxEjectionUnits*s.unit)
	e.ejectedUntil = now.Add(e.ejectedFor)
	clear(e.calls)
	return append(ejected, e)
}

// failsAlone reports whether enough calls failed, of teams whose calls succeed at other endpoints.
func (h *history) failsAlone() bool {
	needed := minFailures
	if h.onProbation {
		needed = minFailuresAgain
	}
	var failures, successes int
	for _, c := range h.calls {
		if c.succeedElsewhere() {
			failures, successes = failures+c.failures, successes+c.successesElsewhere
		}
	}
	return failures >= needed && successes >= minSuccesses
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
	h.onProbation = false
}

// setMembers replaces the members. It returns the endpoints whose ejection ends: removed are no
// longer members; readmitted are members that it readmits so that at most half of the members are
// ejected.
func (s *outliers) setMembers(members []*Endpoint, now time.Time) (removed, readmitted []*Endpoint) {
	for _, e := range s.members {
		if slices.Contains(members, e) {
			continue
		}
		if e.isEjected() || e.silence == confirmed {
			removed = append(removed, e)
		}
		if e.isEjected() {
			e.readmit(now)
		}
		e.calls, e.onProbation, e.silence = nil, false, noSilence // the next connection may be to another process
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
func (s *outliers) expire(now time.Time) (readmitted []*Endpoint) {
	for e := s.firstToExpire(); e != nil && !now.Before(e.ejectedUntil); e = s.firstToExpire() {
		e.readmit(now)
		e.onProbation = true
		readmitted = append(readmitted, e)
	}
	return readmitted
}

// firstToExpire returns the endpoint whose ejection ends first, or nil if none is ejected.
func (s *outliers) firstToExpire() (first *Endpoint) {
	for _, e := range s.members {
		if e.isEjected() && (first == nil || e.ejectedUntil.Before(first.ejectedUntil)) {
			first = e
		}
	}
	return first
}
