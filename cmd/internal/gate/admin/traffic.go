package admin

import (
	"cmp"
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
)

const (
	sampleEvery     = 10 * time.Second
	points          = 90 // of the traffic history
	pointsPerMinute = 6
	latencyPoints   = 5 * pointsPerMinute // of latencies and denials
)

// samples are the latest readings in order, at most points+1. A point is the difference between
// two.
type samples []readings

// sample adds a sample to the history.
func (a *Admin) sample() {
	r := a.readMetrics()
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

// RouteTraffic is the history of one route or all. Each list has a number per point, or is null for
// zeros.
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
	t := Traffic{Every: sampleEvery.Seconds(), MaxPoints: points, Routes: []RouteTraffic{}, Total: s.route(allRoutes)}
	if len(s) > 0 {
		t.End, t.Points = s[len(s)-1].at, len(s)-1
	}
	for _, name := range s.names(routes) {
		t.Routes = append(t.Routes, s.route(name))
	}
	t.Routes = slices.DeleteFunc(t.Routes, func(r RouteTraffic) bool { return r.requests == 0 })
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
	l := &Latencies{P50: last.quantile(.5), P99: last.quantile(.99), P50Of5m: longer.quantile(.5),
		P99Of5m: longer.quantile(.99)}
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

// failures are the requests of the last minute and of its last point, and those that failed by
// route.
type failures struct {
	failed, all          uint64
	lastFailed, lastAll  uint64
	byRoute, lastByRoute map[string]uint64
	quietFor             time.Duration // minimum time since the last failure, in whole points
}

func (s samples) failures() failures {
	minute := s.latest(pointsPerMinute)
	all, last := minute.increase(routes, allRoutes), minute.latest(1).increase(routes, allRoutes)
	f := failures{
		failed: uint64(all.requests[failed]), all: uint64(all.count()),
		lastFailed: uint64(last.requests[failed]), lastAll: uint64(last.count()),
		byRoute: make(map[string]uint64), lastByRoute: make(map[string]uint64),
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

// The metrics that the page shows. TestMetricsOfThePageExist checks that a gateway has them.
const (
	metricRequests  = "opsgate_http_requests_total"
	metricDuration  = "opsgate_http_request_duration_seconds"
	metricInFlight  = "opsgate_http_requests_in_flight"
	metricCalls     = "opsgate_upstream_requests_in_flight"
	metricCallTimes = "opsgate_upstream_request_duration_seconds"
	metricStart     = "process_start_time_seconds"
	metricUnknown   = "opsgate_rate_limit_unknown_class_requests_total"
)

// allRoutes is the name of the sum of all routes.
const allRoutes = "all routes"

// class groups response statuses.
type class int

const (
	answered class = iota // 1xx to 3xx
	rejected              // 4xx except 429
	limited               // 429
	failed                // 5xx
	classes
)

func classOf(status string) class {
	switch {
	case status == "429":
		return limited
	case status >= "5":
		return failed
	case status >= "4":
		return rejected
	default:
		return answered
	}
}

// totals are the counters of one route, service or method since the process started, or an
// increase.
type totals struct {
	requests [classes]float64
	bounds   []float64 // of the buckets, in seconds
	buckets  []uint64  // cumulative, with +Inf at the end; nil if unknown
}

// since returns the increase since an earlier reading.
func (t totals) since(before totals) totals {
	for c, n := range before.requests {
		t.requests[c] -= n
	}
	t.buckets = slices.Clone(t.buckets)
	for i, n := range before.buckets {
		t.buckets[i] -= n
	}
	return t
}

// count returns the number of requests.
func (t totals) count() (n float64) {
	for _, of := range t.requests {
		n += of
	}
	return n
}

// group is what counters are of.
type group int

const (
	routes   group = iota // with allRoutes
	services              // without requests
	methods               // calls that were answered, by "service.method"; those with PermissionDenied are rejected
	groups
)

// counters are the counters of a group, by name.
type counters map[string]totals

// readings are the values of the metrics at one moment.
type readings struct {
	at       time.Time
	counters [groups]counters
	gauges   map[string]float64 // by metric, or service for calls in flight
}

// readMetrics gathers the metrics. On an error of one collector it uses the metrics of the others.
func (a *Admin) readMetrics() readings {
	families, _ := a.options.Metrics.Gather()
	r := readings{
		at: a.options.Clock().UTC(), counters: [groups]counters{{}, {}, {}}, gauges: make(map[string]float64),
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			r.add(family.GetName(), m)
		}
	}
	return r
}

// add adds the value of a metric that the page shows, and ignores other metrics.
func (r *readings) add(name string, m *dto.Metric) {
	switch name {
	case metricRequests:
		for _, route := range []string{label(m, "route"), allRoutes} {
			r.counters[routes].count(route, classOf(label(m, "status")), m.GetCounter().GetValue())
		}
	case metricDuration:
		for _, route := range []string{label(m, "route"), allRoutes} {
			r.counters[routes].addDurations(route, m.GetHistogram())
		}
	case metricCallTimes:
		r.counters[services].addDurations(label(m, "service"), m.GetHistogram())
		c, method := answered, label(m, "service")+"."+label(m, "method")
		if label(m, "code") == codes.PermissionDenied.String() {
			c = rejected
		}
		if label(m, "code") != codes.Unavailable.String() {
			r.counters[methods].count(method, c, float64(m.GetHistogram().GetSampleCount()))
		}
	case metricCalls:
		r.gauges[label(m, "service")] = m.GetGauge().GetValue()
	case metricInFlight, metricStart:
		r.gauges[name] = m.GetGauge().GetValue()
	case metricUnknown:
		r.gauges[name] = m.GetCounter().GetValue()
	}
}

func (all counters) count(name string, c class, n float64) {
	t := all[name]
	t.requests[c] += n
	all[name] = t
}

// addDurations adds the buckets of a histogram. All of a metric have the same bounds.
func (all counters) addDurations(name string, h *dto.Histogram) {
	t := all[name]
	if t.buckets == nil {
		t.bounds, t.buckets = make([]float64, len(h.GetBucket())), make([]uint64, len(h.GetBucket())+1)
	}
	for i, b := range h.GetBucket() {
		t.bounds[i] = b.GetUpperBound()
		t.buckets[i] += b.GetCumulativeCount()
	}
	t.buckets[len(t.bounds)] += h.GetSampleCount()
	all[name] = t
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
