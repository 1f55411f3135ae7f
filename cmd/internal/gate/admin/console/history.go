package console

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of the history.
const (
	points    = 90 // 15 minutes at one point each 10 s
	maxRoutes = 64 // about three times the size of the route table

	pointsPerMinute = 6
	latencyPoints   = 5 * pointsPerMinute // points with latencies; points is a multiple of it
)

// history holds the requests between samples as a ring of points for each route, or the calls for each
// service or method. It is safe for concurrent use.
type history struct {
	every time.Duration

	mu      sync.Mutex
	samples uint64 // taken so far; the first is the baseline
	end     time.Time
	bounds  []float64
	routes  map[string]*series
	omitted int // routes beyond maxRoutes
}

// series is the ring of points of one route.
type series struct {
	last     totals
	requests [points][classes]uint32
	times    [latencyPoints][]uint32 // requests by bucket, not cumulative; nil for no requests
}

func newHistory(every time.Duration) *history {
	return &history{every: every, routes: make(map[string]*series)}
}

// add adds a point: the difference between the totals and the previous ones.
func (h *history) add(r measured, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.samples == 0
	at := int(h.samples % points)
	h.samples++
	h.end, h.bounds, h.omitted = now, r.bounds, 0
	for _, s := range h.routes {
		s.requests[at], s.times[at%latencyPoints] = [classes]uint32{}, nil
	}
	for name, t := range r.routes {
		s := h.series(name)
		if s == nil {
			h.omitted++
			continue
		}
		if !first {
			s.set(at, t)
		}
		s.last = *t
	}
}

// series returns the series of a route, or nil beyond maxRoutes. The caller holds h.mu.
func (h *history) series(route string) *series {
	s, known := h.routes[route]
	if !known && len(h.routes) < maxRoutes {
		s = new(series)
		h.routes[route] = s
	}
	return s
}

// set sets a point to the difference between t and the last totals. A counter that was reset counts as 0.
func (s *series) set(at int, t *totals) {
	for c, n := range t.requests {
		s.requests[at][c] = uint32(max(0, n-s.last.requests[c]))
	}
	if len(t.buckets) == 0 || len(s.last.buckets) > 0 && len(s.last.buckets) != len(t.buckets) {
		return
	}
	times := &s.times[at%latencyPoints]
	var below uint64 // requests in lower buckets
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

// sampleEvery is the interval of the traffic history, which therefore covers 15 minutes.
const sampleEvery = 10 * time.Second

// A Sampler keeps the history of traffic and of calls to services, which it samples from the metrics of the process.
type Sampler struct {
	metrics  prometheus.Gatherer
	clock    func() time.Time
	history  *history
	services *history
	methods  *history // of the services
}

// NewSampler returns a Sampler without a history. clock is the wall clock.
func NewSampler(metrics prometheus.Gatherer, clock func() time.Time) *Sampler {
	return &Sampler{
		metrics: metrics, clock: clock, history: newHistory(sampleEvery), services: newHistory(sampleEvery), methods: newHistory(sampleEvery),
	}
}

// Run samples the metrics until ctx ends, then returns nil.
func (s *Sampler) Run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		r, now := s.read(), s.clock()
		s.history.add(r.measured, now)
		s.services.add(r.services, now)
		s.methods.add(r.methods, now)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// read gathers the metrics. On an error of one collector it uses the metrics of the others.
func (s *Sampler) read() readings {
	families, _ := s.metrics.Gather()
	return newReadings(families)
}
