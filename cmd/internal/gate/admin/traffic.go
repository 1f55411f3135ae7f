package admin

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// sampleEvery is the interval of the traffic history, which covers 15 minutes.
	sampleEvery = 10 * time.Second
	points      = 90

	pointsPerMinute = 6
	latencyPoints   = 5 * pointsPerMinute // of latencies and denials
)

// samples are the latest readings in order, at most points+1. A point is the difference between two.
type samples []readings

// sample adds a sample to the history.
func (a *Admin) sample() {
	r := a.read()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.samples = append(slices.Clone(a.samples[max(0, len(a.samples)-points):]), r)
}

// latest returns the samples of the latest n points.
func (s samples) latest(n int) samples { return s[max(0, len(s)-1-n):] }

// increase returns by how much the counters of a name have grown from the first to the last sample.
func (s samples) increase(of group, name string) totals {
	if len(s) == 0 {
		return totals{}
	}
	return s[len(s)-1].counters[of][name].since(s[0].counters[of][name])
}

// each returns the increase of each point, the oldest first.
func (s samples) each(of group, name string) (list []totals) {
	for i := range max(0, len(s)-1) {
		list = append(list, s[i:i+2].increase(of, name))
	}
	return list
}

// names returns the names in the last sample in order, without allRoutes.
func (s samples) names(of group) []string {
	if len(s) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(s[len(s)-1].counters[of]))
	return slices.DeleteFunc(names, func(name string) bool { return name == allRoutes })
}

// Traffic is the history as the page plots it.
type Traffic struct {
	End       time.Time      `json:"end,omitzero"`  // of the last point
	Every     float64        `json:"every_seconds"` // between points
	Points    int            `json:"points"`        // so far, at most MaxPoints
	MaxPoints int            `json:"points_at_most"`
	Total     RouteTraffic   `json:"total"`
	Routes    []RouteTraffic `json:"routes"` // with requests, the busiest first
}

// RouteTraffic is the history of one route, or of all routes. Each list has one number per point, the
// oldest first, or is null if all are 0.
type RouteTraffic struct {
	Name     string   `json:"name"`
	Answered []uint32 `json:"answered"` // below 400
	Rejected []uint32 `json:"rejected"` // 4xx except 429
	Limited  []uint32 `json:"limited"`  // 429
	Failed   []uint32 `json:"failed"`   // 5xx
	P50      *Latency `json:"p50"`      // over the last five minutes; null without requests
	P99      *Latency `json:"p99"`

	requests float64
}

// traffic returns the history as the page plots it.
func (s samples) traffic() Traffic {
	t := Traffic{Every: sampleEvery.Seconds(), Points: max(0, len(s)-1), MaxPoints: points, Routes: []RouteTraffic{}, Total: s.route(allRoutes)}
	if len(s) > 0 {
		t.End = s[len(s)-1].at
	}
	for _, name := range s.names(routes) {
		if route := s.route(name); route.requests > 0 {
			t.Routes = append(t.Routes, route)
		}
	}
	slices.SortStableFunc(t.Routes, func(a, b RouteTraffic) int { return cmp.Compare(b.requests, a.requests) })
	return t
}

func (s samples) route(name string) RouteTraffic {
	increase := s.increase(routes, name)
	each := s.each(routes, name)
	list := func(c class) []uint32 {
		if increase.requests[c] == 0 {
			return nil
		}
		numbers := make([]uint32, len(each))
		for i, point := range each {
			numbers[i] = uint32(point.requests[c])
		}
		return numbers
	}
	recent := s.latest(latencyPoints).increase(routes, name)
	return RouteTraffic{
		Name: name, Answered: list(answered), Rejected: list(rejected), Limited: list(limited), Failed: list(failed),
		P50: recent.quantile(.5), P99: recent.quantile(.99), requests: increase.count(),
	}
}

// Latency is a quantile of response times.
type Latency struct {
	Seconds float64 `json:"seconds"`
	Over    bool    `json:"over,omitempty"` // the quantile is above Seconds, which is the highest bound of the histogram
}

// Latencies are the latencies of the calls to a service.
type Latencies struct {
	P50 *Latency `json:"p50"` // of the last point; null without calls
	P99 *Latency `json:"p99"`

	P50Of5m *Latency `json:"p50_of_5m"` // of the last five minutes
	P99Of5m *Latency `json:"p99_of_5m"`

	calls, slow uint64 // in the last point; slow are those that took slowLatency or longer
}

// latencies returns the latencies of a service; nil if it has not been called.
func (s samples) latencies(service string) *Latencies {
	if len(s) == 0 || s[len(s)-1].counters[services][service].buckets == nil {
		return nil
	}
	last, longer := s.latest(1).increase(services, service), s.latest(latencyPoints).increase(services, service)
	l := &Latencies{P50: last.quantile(.5), P99: last.quantile(.99), P50Of5m: longer.quantile(.5), P99Of5m: longer.quantile(.99)}
	for i, n := range last.buckets {
		if l.calls = n; i < len(last.bounds) && last.bounds[i] <= slowLatency {
			l.slow = n
		}
	}
	l.slow = l.calls - l.slow
	return l
}

// quantile returns the q-quantile of the response times, or nil without requests. It interpolates
// linearly within a bucket, as Prometheus does.
func (t totals) quantile(q float64) *Latency {
	if len(t.buckets) == 0 || t.buckets[len(t.buckets)-1] == 0 {
		return nil
	}
	rank, below, from := q*float64(t.buckets[len(t.buckets)-1]), 0.0, 0.0
	for i, bound := range t.bounds {
		n := float64(t.buckets[i])
		if n > below && n >= rank {
			return &Latency{Seconds: from + (bound-from)*(rank-below)/(n-below)}
		}
		below, from = n, bound
	}
	return &Latency{Seconds: from, Over: true}
}

// failures counts the requests of the last minute, and of its last point.
type failures struct {
	failed, all          uint64
	lastFailed, lastAll  uint64
	byRoute, lastByRoute map[string]uint64 // failed
	quietFor             time.Duration     // minimum time since the last failure, in whole points
}

func (s samples) failures() failures {
	minute := s.latest(pointsPerMinute)
	all, last := minute.increase(routes, allRoutes), minute.latest(1).increase(routes, allRoutes)
	f := failures{
		failed: uint64(all.requests[failed]), all: uint64(all.count()),
		lastFailed: uint64(last.requests[failed]), lastAll: uint64(last.count()), byRoute: make(map[string]uint64), lastByRoute: make(map[string]uint64),
	}
	for _, point := range minute.each(routes, allRoutes) {
		if f.quietFor += sampleEvery; point.requests[failed] > 0 {
			f.quietFor = 0
		}
	}
	for _, name := range minute.names(routes) {
		if n := minute.increase(routes, name).requests[failed]; n > 0 {
			f.byRoute[name] = uint64(n)
			f.lastByRoute[name] = uint64(minute.latest(1).increase(routes, name).requests[failed])
		}
	}
	return f
}

// denials counts the calls of a method in the last five minutes that the service answered, with any
// code but Unavailable: an open breaker refuses most calls of a method that is always denied.
type denials struct {
	answered, denied uint64 // denied: with PermissionDenied
	ongoing          bool   // most of the latest ones were denied
}

// denials returns the denials by "service.method".
func (s samples) denials() map[string]denials {
	all, recent := make(map[string]denials), s.latest(latencyPoints)
	for _, name := range recent.names(methods) {
		increase := recent.increase(methods, name)
		d := denials{answered: uint64(increase.count()), denied: uint64(increase.requests[rejected])}
		for _, point := range recent.each(methods, name) {
			if n := point.count(); n > 0 {
				d.ongoing = 2*point.requests[rejected] > n
			}
		}
		all[name] = d
	}
	return all
}
