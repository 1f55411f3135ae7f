package console

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Traffic is the history as the page plots it.
type Traffic struct {
	End     time.Time `json:"end"`           // of the last point
	Every   float64   `json:"every_seconds"` // between points
	Points  int       `json:"points"`        // there are so far, at most Most
	Most    int       `json:"points_at_most"`
	Total   Route     `json:"total"`
	Routes  []Route   `json:"routes"` // those that were asked for, the busiest first
	LeftOut int       `json:"routes_left_out,omitempty"`
}

// A Route is the history of one route, or of all. Lists have a number for each point, the oldest first; null for nothing but zeros.
type Route struct {
	Name     string   `json:"name"`
	Answered []uint32 `json:"answered"` // below 400
	Rejected []uint32 `json:"rejected"` // 4xx, but for 429
	Limited  []uint32 `json:"limited"`  // 429
	Failed   []uint32 `json:"failed"`   // 5xx
	P50      *Latency `json:"p50"`      // over the last five minutes; null where nothing was asked for
	P99      *Latency `json:"p99"`
}

// A Latency is a time within which a part of the requests was answered.
type Latency struct {
	Seconds float64 `json:"seconds"`
	Over    bool    `json:"over,omitempty"` // it is longer than the longest time that the metrics tell apart, which Seconds is
}

// taken returns how many samples were taken.
func (h *history) taken() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.samples
}

// traffic returns what the page plots.
func (h *history) traffic() Traffic {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.count()
	t := Traffic{End: h.end.UTC(), Every: h.every.Seconds(), Points: n, Most: points, Routes: []Route{}, LeftOut: h.leftOut}
	all := new(series)
	for _, name := range slices.Sorted(maps.Keys(h.routes)) {
		s := h.routes[name]
		route := h.route(name, s)
		if route.sum() == 0 {
			continue
		}
		t.Routes = append(t.Routes, route)
		all.merge(s)
	}
	t.Total = h.route("all routes", all)
	slices.SortStableFunc(t.Routes, func(a, b Route) int { return cmp.Compare(b.sum(), a.sum()) })
	return t
}

// count returns how many points there are. The caller holds h.mu, as with what follows.
func (h *history) count() int { return int(min(max(h.samples, 1)-1, points)) }

// latest returns where the latest n points are, the oldest first.
func (h *history) latest(n int) []int {
	at := make([]int, min(n, h.count()))
	for i := range at {
		at[i] = int((h.samples - uint64(len(at)-i)) % points)
	}
	return at
}

func (h *history) route(name string, s *series) Route {
	at := h.latest(points)
	list := func(c class) []uint32 {
		numbers := make([]uint32, len(at))
		for i, point := range at {
			numbers[i] = s.requests[point][c]
		}
		if len(numbers) == 0 || slices.Max(numbers) == 0 {
			return nil
		}
		return numbers
	}
	times := h.times(s)
	return Route{
		Name: name, Answered: list(answered), Rejected: list(rejected), Limited: list(limited), Failed: list(failed),
		P50: quantile(.5, h.bounds, times), P99: quantile(.99, h.bounds, times),
	}
}

// times returns how many requests each bucket has had of late.
func (h *history) times(s *series) []uint32 {
	var sum []uint32
	for _, at := range h.latest(latencyOver) {
		sum = plus(sum, s.times[at%latencyOver])
	}
	return sum
}

// merge adds another series to this one.
func (s *series) merge(other *series) {
	for at := range s.requests {
		for c := range s.requests[at] {
			s.requests[at][c] += other.requests[at][c]
		}
	}
	for at := range s.times {
		s.times[at] = plus(s.times[at], other.times[at])
	}
}

// plus adds to the first list, which it makes where there is none.
func plus(sum, more []uint32) []uint32 {
	if sum == nil && more != nil {
		sum = make([]uint32, len(more))
	}
	for i := range min(len(sum), len(more)) {
		sum[i] += more[i]
	}
	return sum
}

// sum returns how many requests there were.
func (r Route) sum() (n uint64) {
	for _, list := range [][]uint32{r.Answered, r.Rejected, r.Limited, r.Failed} {
		for _, number := range list {
			n += uint64(number)
		}
	}
	return n
}

// quantile returns the time within which the part q of the requests was answered, nil where there were none. Within a bucket,
// requests are taken to lie evenly, as Prometheus does.
func quantile(q float64, bounds []float64, counts []uint32) *Latency {
	var all float64
	for _, n := range counts {
		all += float64(n)
	}
	if all == 0 || len(counts) != len(bounds)+1 {
		return nil
	}
	rank, below, from := q*all, 0.0, 0.0
	for i, bound := range bounds {
		n := float64(counts[i])
		if n > 0 && below+n >= rank {
			return &Latency{Seconds: from + (bound-from)*(rank-below)/n}
		}
		below, from = below+n, bound
	}
	return &Latency{Seconds: from, Over: true}
}

// Failures are the requests of the last minute that failed, and all of it.
type failures struct {
	failed, all uint64
	byRoute     map[string]uint64
	over        time.Duration // there were none of late: for so long at least
}

func (h *history) failures() failures {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := failures{byRoute: make(map[string]uint64)}
	for _, at := range h.latest(aMinute) {
		f.over += h.every
		for name, s := range h.routes {
			for _, n := range s.requests[at] {
				f.all += uint64(n)
			}
			if n := uint64(s.requests[at][failed]); n > 0 {
				f.failed += n
				f.byRoute[name] += n
				f.over = 0
			}
		}
	}
	return f
}
