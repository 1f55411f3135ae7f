package chaos

import (
	"testing"
	"time"
)

// A phase is part of a trial: what begins it, what it waits for, and how long it lasts from then on.
type phase struct {
	name  string
	begin func()      // mostly a fault, or its end; nil for nothing
	until func() bool // nil for at once
	lasts time.Duration
}

// A trial is what happened to a load in its phases.
type trial struct {
	responses

	times map[string]phaseTimes
}

type phaseTimes struct{ began, done, reached, ended time.Time }

// through sends the load while the phases follow each other.
func (l load) through(t *testing.T, phases ...phase) *trial {
	t.Helper()
	r := &trial{times: map[string]phaseTimes{}}
	end := l.start(t)
	for _, p := range phases {
		at := phaseTimes{began: time.Now()}
		if p.begin != nil {
			p.begin()
		}
		at.done = time.Now()
		if p.until != nil {
			eventually(t, p.name, p.until)
		}
		at.reached = time.Now()
		sleep(t, p.lasts)
		at.ended = time.Now()
		r.times[p.name] = at
	}
	r.responses = end()
	return r
}

// began returns when a phase began.
func (r *trial) began(phase string) time.Time { return r.times[phase].began }

// took returns the time that a phase waited.
func (r *trial) took(phase string) time.Duration {
	return r.times[phase].reached.Sub(r.times[phase].done)
}

// in returns the responses to requests that were sent in a phase, after it waited.
func (r *trial) in(phase string) responses {
	return r.between(r.times[phase].reached, r.times[phase].ended)
}

// all returns the responses to requests that were sent in a phase, and while it began and waited.
func (r *trial) all(phase string) responses {
	return r.between(r.times[phase].began, r.times[phase].ended)
}

// before returns the responses to requests that were sent before a phase.
func (r *trial) before(phase string) responses { return r.between(time.Time{}, r.began(phase)) }

// since returns the responses to requests that were sent from the beginning of a phase.
func (r *trial) since(phase string) responses { return r.between(r.began(phase), time.Now()) }
