package admin

import (
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
)

// The metrics that the page shows. TestMetricsOfThePageExist checks that a gateway has them.
const (
	metricRequests   = "opsgate_http_requests_total"
	metricDuration   = "opsgate_http_request_duration_seconds"
	metricInFlight   = "opsgate_http_requests_in_flight"
	metricCalls      = "opsgate_upstream_requests_in_flight"
	metricCallTimes  = "opsgate_upstream_request_duration_seconds"
	metricStart      = "process_start_time_seconds"
	metricMemory     = "process_resident_memory_bytes"
	metricGoroutines = "go_goroutines"
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

// totals are the counters of one route, service or method since the process started, or an increase.
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
	gauges   map[string]float64
	inFlight map[string]float64 // calls in flight, by service
}

// read gathers the metrics. On an error of one collector it uses the metrics of the others.
func (a *Admin) read() readings {
	families, _ := a.options.Metrics.Gather()
	r := readings{
		at: a.options.Clock().UTC(), counters: [groups]counters{{}, {}, {}}, gauges: make(map[string]float64), inFlight: make(map[string]float64),
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
		r.addAnswers(m)
	case metricCalls:
		r.inFlight[label(m, "service")] = m.GetGauge().GetValue()
	case metricInFlight, metricStart, metricMemory, metricGoroutines:
		r.gauges[name] = m.GetGauge().GetValue()
	}
}

// addAnswers adds the calls of a method with one code.
func (r *readings) addAnswers(m *dto.Metric) {
	c := answered
	switch label(m, "code") {
	case codes.Unavailable.String():
		return
	case codes.PermissionDenied.String():
		c = rejected
	}
	r.counters[methods].count(label(m, "service")+"."+label(m, "method"), c, float64(m.GetHistogram().GetSampleCount()))
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
