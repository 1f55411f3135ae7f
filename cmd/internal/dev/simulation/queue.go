package simulation

import (
	"context"
	"slices"
	"time"
)

// An activity performs an event of a time. It returns the time of its next event; the zero time if there is none.
type activity func(ctx context.Context, at time.Time) (next time.Time, err error)

// An event is the activity of a time.
type event struct {
	at time.Time
	do activity
}

// A queue has events in the order of their times, and of scheduling for those of the same time.
type queue []event

// schedule adds an event; none if the time is zero.
func (s *Simulation) schedule(at time.Time, do activity) {
	if at.IsZero() {
		return
	}
	i := len(s.events)
	for i > 0 && s.events[i-1].at.After(at) {
		i--
	}
	s.events = slices.Insert(s.events, i, event{at, do})
}

// next removes the first event and returns it if it is due until a time.
func (q *queue) next(until time.Time) (first event, due bool) {
	if len(*q) == 0 || (*q)[0].at.After(until) {
		return event{}, false
	}
	first = (*q)[0]
	*q = slices.Delete(*q, 0, 1)
	return first, true
}
