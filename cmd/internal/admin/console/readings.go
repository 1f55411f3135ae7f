package console

import (
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// The metrics that the page is made of. The gateway's own are held to be there by a test of the wiring.
const (
	metricRequests   = "opsgate_http_requests_total"
	metricDuration   = "opsgate_http_request_duration_seconds"
	metricInFlight   = "opsgate_http_requests_in_flight"
	metricCalls      = "opsgate_upstream_requests_in_flight"
	metricStart      = "process_start_time_seconds"
	metricMemory     = "process_resident_memory_bytes"
	metricGoroutines = "go_goroutines"
)

// A class is what became of a request, as far as whoever looks at a plot wants to know.
type class int

const (
	answered class = iota // 1xx to 3xx
	rejected              // 4xx: the client's to mend
	limited               // 429
	failed                // 5xx: ours to mend
	classes
)

// classOf returns the class of a status.
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

// Totals are what was counted of one route since the process began.
type totals struct {
	requests [classes]float64
	buckets  []uint64 // requests that took no longer than each bound, and all of them; nil where times are not known
}

// Readings are what the metrics say at one moment.
type readings struct {
	routes   map[string]*totals
	bounds   []float64 // of the buckets, in seconds
	gauges   map[string]float64
	inFlight map[string]float64 // calls under way, by service
}

func readingsOf(families []*dto.MetricFamily) readings {
	r := readings{routes: make(map[string]*totals), gauges: make(map[string]float64), inFlight: make(map[string]float64)}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			r.take(family.GetName(), m)
		}
	}
	return r
}

// take takes what the page shows of a metric.
func (r *readings) take(name string, m *dto.Metric) {
	switch name {
	case metricRequests:
		r.route(m).requests[classOf(label(m, "status"))] += m.GetCounter().GetValue()
	case metricDuration:
		r.takeDurations(m)
	case metricCalls:
		r.inFlight[label(m, "service")] = m.GetGauge().GetValue()
	case metricInFlight, metricStart, metricMemory, metricGoroutines:
		r.gauges[name] = m.GetGauge().GetValue()
	}
}

// takeDurations takes the buckets of a histogram. All routes have the same bounds.
func (r *readings) takeDurations(m *dto.Metric) {
	h := m.GetHistogram()
	bounds, counts := make([]float64, 0, len(h.GetBucket())), make([]uint64, 0, len(h.GetBucket())+1)
	for _, b := range h.GetBucket() {
		bounds, counts = append(bounds, b.GetUpperBound()), append(counts, b.GetCumulativeCount())
	}
	counts = append(counts, h.GetSampleCount())
	if r.bounds == nil {
		r.bounds = bounds
	}
	if len(bounds) > 0 && slices.Equal(bounds, r.bounds) {
		r.route(m).buckets = counts
	}
}

func (r *readings) route(m *dto.Metric) *totals {
	name := label(m, "route")
	t, ok := r.routes[name]
	if !ok {
		t = new(totals)
		r.routes[name] = t
	}
	return t
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
