package console

import (
	"sync"
	"time"
)

// Bounds of the history.
const (
	points    = 90 // a quarter of an hour, at one each 10 s
	maxRoutes = 64 // the gateway's table is a third of that

	aMinute     = 6           // points
	latencyOver = 5 * aMinute // points that latencies are told of; the history is a multiple of it
)

// A history is what was counted between the latest samples. It is safe for concurrent use.
type history struct {
	every time.Duration

	mu      sync.Mutex
	samples uint64 // that were taken; the first has nothing to be compared with
	end     time.Time
	bounds  []float64
	routes  map[string]*series
	leftOut int // routes for which there is no room
}

// A series is the history of a route. A point is overwritten when it is as old as the history is long.
type series struct {
	last     totals
	requests [points][classes]uint32
	times    [latencyOver][]uint32 // requests by bucket, each counted in one; nil where there were none
}

func newHistory(every time.Duration) *history {
	return &history{every: every, routes: make(map[string]*series)}
}

// add adds a point, with what was counted since the last one.
func (h *history) add(r readings, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.samples == 0
	at := int(h.samples % points)
	h.samples++
	h.end, h.bounds, h.leftOut = now, r.bounds, 0
	for _, s := range h.routes {
		s.requests[at], s.times[at%latencyOver] = [classes]uint32{}, nil
	}
	for name, t := range r.routes {
		s := h.series(name)
		if s == nil {
			h.leftOut++
			continue
		}
		if !first {
			s.count(at, t)
		}
		s.last = *t
	}
}

// series returns the history of a route, or nil where there is no room for one more. The caller holds h.mu.
func (h *history) series(route string) *series {
	s, known := h.routes[route]
	if !known && len(h.routes) < maxRoutes {
		s = new(series)
		h.routes[route] = s
	}
	return s
}

// count notes what was counted since the last totals. A counter that fell has begun anew.
func (s *series) count(at int, t *totals) {
	for c, n := range t.requests {
		s.requests[at][c] = uint32(max(0, n-s.last.requests[c]))
	}
	if len(t.buckets) == 0 || len(s.last.buckets) > 0 && len(s.last.buckets) != len(t.buckets) {
		return
	}
	times := &s.times[at%latencyOver]
	var below uint64 // of the new ones, those in buckets before this one
	for i, n := range t.buckets {
		if len(s.last.buckets) > 0 {
			n -= min(n, s.last.buckets[i])
		}
		if n > below {
			if *times == nil {
				*times = make([]uint32, len(t.buckets))
			}
			(*times)[i] = uint32(n - below)
			below = n
		}
	}
}
