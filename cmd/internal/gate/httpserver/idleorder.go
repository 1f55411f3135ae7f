package httpserver

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// candidateDivisor limits the candidates of one search to 1/16 of the open connections. The next
// evictions take these candidates and need no search.
const candidateDivisor = 16

// An idleOrder orders connections by when they became idle: when they were opened, or when their
// last authenticated request ended. Each of these events has a number, so that a request needs
// neither a clock nor a lock:
//
//	event   A opened   B opened   request on A ended   C opened
//	number  1          2          3                    4
//
// Here the order is B (2), A (3), C (4). An anonymous request is not an event: it does not delay
// the eviction of its connection.
type idleOrder struct {
	lastNumber atomic.Uint64
	candidates []candidate // longest idle last; that one is evicted next
}

// A candidate is a connection that was idle at the last search.
type candidate struct {
	*connection
	idleSince uint64
}

// add records that a connection became idle.
func (o *idleOrder) add(c *connection) { c.idleSince.Store(o.lastNumber.Add(1)) }

// first returns the open connection that became idle first, or nil if all are busy. It takes the
// candidates of the last search, if any remain: connections that became idle after that search have
// higher numbers.
func (o *idleOrder) first(open map[*connection]struct{}) *connection {
	if c := o.takeCandidate(open); c != nil {
		return c
	}
	o.search(open)
	return o.takeCandidate(open)
}

// takeCandidate removes candidates until one is open and has been idle since the search, and
// returns it, or nil.
func (o *idleOrder) takeCandidate(open map[*connection]struct{}) *connection {
	for len(o.candidates) > 0 {
		last := len(o.candidates) - 1
		c := o.candidates[last]
		o.candidates = o.candidates[:last]
		if _, isOpen := open[c.connection]; isOpen && c.isIdle() && c.connection.idleSince.Load() == c.idleSince {
			return c.connection
		}
	}
	return nil
}

// search replaces the candidates by the connections that became idle first.
func (o *idleOrder) search(open map[*connection]struct{}) {
	o.candidates = o.candidates[:0]
	for c := range open {
		if c.isIdle() {
			o.candidates = append(o.candidates, candidate{c, c.idleSince.Load()})
		}
	}
	slices.SortFunc(o.candidates, func(a, b candidate) int { return cmp.Compare(b.idleSince, a.idleSince) })
	keep := min(len(o.candidates), 1+len(open)/candidateDivisor)
	o.candidates = slices.Delete(o.candidates, 0, len(o.candidates)-keep)
}

// isIdle reports whether the connection serves no authenticated request. The caller must read
// idleSince after isIdle, because MarkIdle sets idleSince before it decrements busyRequests.
func (c *connection) isIdle() bool { return c.busyRequests.Load() == 0 }
