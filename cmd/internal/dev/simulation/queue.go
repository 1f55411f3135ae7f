package simulation

import (
	"container/heap"
	"context"
	"time"
)

// An activity performs an event of a time. It returns the time of its next event; the zero time if there is none.
type activity func(ctx context.Context, at time.Time) (next time.Time, err error)

// An event is the activity of a time.
type event struct {
	at    time.Time
	order int // of scheduling, for events of the same time
	do    activity
}

// A queue returns events in the order of their times.
type queue struct {
	waiting   eventHeap
	scheduled int
}

// schedule adds an event; none if the time is zero.
func (s *Simulation) schedule(at time.Time, do activity) {
	if at.IsZero() {
		return
	}
	s.events.scheduled++
	heap.Push(&s.events.waiting, event{at: at, order: s.events.scheduled, do: do})
}

// next removes the first event and returns it if it is due until a time.
func (q *queue) next(until time.Time) (first event, due bool) {
	if len(q.waiting) == 0 || q.waiting[0].at.After(until) {
		return event{}, false
	}
	first = q.waiting[0]
	heap.Pop(&q.waiting)
	return first, true
}

// An eventHeap implements [heap.Interface].
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }

func (h eventHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}

func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *eventHeap) Push(x any) { *h = append(*h, x.(event)) } //nolint:forcetypeassert // the type of the heap

// Pop implements [heap.Interface].
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
