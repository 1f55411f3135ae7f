package endpoints

import (
	"fmt"
	"log/slog"
	"time"
)

// A ProbeResult is what a probe of an endpoint shows.
type ProbeResult int

// The results of probes.
const (
	RightService ProbeResult = iota
	WrongService
	NoAnswer
)

// ToProbe returns the connected endpoints that are silent, or where no probe has found the right
// service, with the generations of their connections.
func (s *Set) ToProbe() map[*Endpoint]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	generations := make(map[*Endpoint]int)
	for _, e := range s.outliers.members {
		if !e.rightService || e.silence != noSilence {
			generations[e] = e.generation
		}
	}
	return generations
}

// Connected returns the endpoints that are connected and healthy, including ejected endpoints. The
// caller must not modify the list.
func (s *Set) Connected() []*Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outliers.members
}

// RecordProbe records the result of a probe. generation is the generation of the endpoint's
// connection before the probe. current is false if the endpoint has connected again since: then the
// result is ignored, because another program may have answered. changed reports whether a wrong
// service has appeared at the endpoint, or has disappeared.
func (s *Set) RecordProbe(e *Endpoint, generation int, r ProbeResult) (current, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.generation != generation {
		return false, false // a probe of the new connection follows
	}
	if r == NoAnswer {
		s.probeUnanswered(e)
		return true, false
	}
	now := time.Now()
	s.recordAnswer(e, now)
	changed = (r == WrongService) == e.wrongSince.IsZero()
	switch {
	case r == RightService:
		e.wrongSince, e.rightService = time.Time{}, true
	case changed:
		e.wrongSince = now
	}
	return true, changed
}

// probeUnanswered records that an endpoint did not answer a probe. The caller holds s.mu.
func (s *Set) probeUnanswered(e *Endpoint) {
	if e.silence == suspected {
		e.silence = confirmed
		s.recordEjection(e, fmt.Sprintf("no answer for %v, while other endpoints answer", maxSilence),
			slog.String("for", "until it answers"))
	}
}
