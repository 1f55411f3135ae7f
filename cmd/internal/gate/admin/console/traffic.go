package console

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Traffic is the history as the page plots it.
type Traffic struct {
	End       time.Time      `json:"end"`           // of the last point
	Every     float64        `json:"every_seconds"` // between points
	Points    int            `json:"points"`        // so far, at most MaxPoints
	MaxPoints int            `json:"points_at_most"`
	Total     RouteTraffic   `json:"total"`
	Routes    []RouteTraffic `json:"routes"` // with requests, the busiest first
	Omitted   int            `json:"omitted,omitempty"`
}

// RouteTraffic is the history of one route, or of all routes. Each list has one number per point, the oldest first, or is null if
// all are 0.
type RouteTraffic struct {
	Name     string   `json:"name"`
	Answered []uint32 `json:"answered"` // below 400
	Rejected []uint32 `json:"rejected"` // 4xx except 429
	Limited  []uint32 `json:"limited"`  // 429
	Failed   []uint32 `json:"failed"`   // 5xx
	P50      *Latency `json:"p50"`      // over the last five minutes; null without requests
	P99      *Latency `json:"p99"`
}

// Latency is a quantile of response times.
type Latency struct {
	Seconds float64 `json:"seconds"`
	Over    bool    `json:"over,omitempty"` // the quantile is above Seconds, which is the highest bound of the histogram
}

// traffic returns the history as the page plots it.
func (h *history) traffic() Traffic {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.length()
	t := Traffic{End: h.end.UTC(), Every: h.every.Seconds(), Points: n, MaxPoints: points, Routes: []RouteTraffic{}, Omitted: h.omitted}
	all := new(series)
	for _, name := range slices.Sorted(maps.Keys(h.routes)) {
		s := h.routes[name]
		route := h.routeTraffic(name, s)
		if route.requests() == 0 {
			continue
		}
		t.Routes = append(t.Routes, route)
		all.merge(s)
	}
	t.Total = h.routeTraffic("all routes", all)
	slices.SortStableFunc(t.Routes, func(a, b RouteTraffic) int { return cmp.Compare(b.requests(), a.requests()) })
	return t
}

// length returns the number of points. The caller holds h.mu, as for the following methods.
func (h *history) length() int { return int(min(max(h.samples, 1)-1, points)) }

// latest returns the indexes of the latest n points, the oldest first.
func (h *history) latest(n int) []int {
	at := make([]int, min(n, h.length()))
	for i := range at {
		at[i] = int((h.samples - uint64(len(at)-i)) % points)
	}
	return at
}

func (h *history) routeTraffic(name string, s *series) RouteTraffic {
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
	times := h.recentTimes(s, latencyPoints)
	return RouteTraffic{
		Name: name, Answered: list(answered), Rejected: list(rejected), Limited: list(limited), Failed: list(failed),
		P50: quantile(.5, h.bounds, times), P99: quantile(.99, h.bounds, times),
	}
}

// Latencies are the latencies of the calls to a service.
type Latencies struct {
	Calls uint64   `json:"calls"` // in the last point
	P50   *Latency `json:"p50"`   // of the last point; null without calls
	P99   *Latency `json:"p99"`

	P50Of5m *Latency `json:"p50_of_5m"` // of the last five minutes
	P99Of5m *Latency `json:"p99_of_5m"`

	slow uint64 // calls in the last point that took slowLatency or longer
}

// latencies returns the latencies of each service.
func (h *history) latencies() map[string]Latencies {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]Latencies, len(h.routes))
	for name, s := range h.routes {
		last, longer := h.recentTimes(s, 1), h.recentTimes(s, latencyPoints)
		l := Latencies{
			P50: quantile(.5, h.bounds, last), P99: quantile(.99, h.bounds, last),
			P50Of5m: quantile(.5, h.bounds, longer), P99Of5m: quantile(.99, h.bounds, longer),
		}
		for bucket, n := range last {
			if l.Calls += uint64(n); bucket > 0 && h.bounds[bucket-1] >= slowLatency {
				l.slow += uint64(n)
			}
		}
		all[name] = l
	}
	return all
}

// recentTimes returns the requests of the latest n points by bucket.
func (h *history) recentTimes(s *series, n int) []uint32 {
	var sum []uint32
	for _, at := range h.latest(n) {
		sum = addCounts(sum, s.times[at%latencyPoints])
	}
	return sum
}

// merge adds the counts of another series.
func (s *series) merge(other *series) {
	for at := range s.requests {
		for c := range s.requests[at] {
			s.requests[at][c] += other.requests[at][c]
		}
	}
	for at := range s.times {
		s.times[at] = addCounts(s.times[at], other.times[at])
	}
}

// addCounts adds more to sum, which it allocates if it is nil.
func addCounts(sum, more []uint32) []uint32 {
	if sum == nil && more != nil {
		sum = make([]uint32, len(more))
	}
	for i := range min(len(sum), len(more)) {
		sum[i] += more[i]
	}
	return sum
}

// requests returns the number of requests in the history.
func (r RouteTraffic) requests() (n uint64) {
	for _, list := range [][]uint32{r.Answered, r.Rejected, r.Limited, r.Failed} {
		for _, number := range list {
			n += uint64(number)
		}
	}
	return n
}

// quantile returns the q-quantile of the response times, or nil without requests. It interpolates linearly within a bucket, as
// Prometheus does.
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

// failures counts the requests of the last minute, and of its last point.
type failures struct {
	failed, all         uint64
	lastFailed, lastAll uint64
	byRoute             map[string]uint64 // failed
	quietFor            time.Duration     // minimum time since the last failure, in whole points
}

func (h *history) failures() failures {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := failures{byRoute: make(map[string]uint64)}
	for _, at := range h.latest(pointsPerMinute) {
		f.quietFor += h.every
		f.lastFailed, f.lastAll = 0, 0
		for name, s := range h.routes {
			for _, n := range s.requests[at] {
				f.all += uint64(n)
				f.lastAll += uint64(n)
			}
			if n := uint64(s.requests[at][failed]); n > 0 {
				f.failed += n
				f.lastFailed += n
				f.byRoute[name] += n
				f.quietFor = 0
			}
		}
	}
	return f
}
