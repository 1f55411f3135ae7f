package console

import (
	"slices"

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

// totals are the counters of one route, service or method since the process started.
type totals struct {
	requests [classes]float64
	buckets  []uint64 // cumulative, with +Inf at the end; nil if unknown
}

// measured are the counters of all routes, services or methods.
type measured struct {
	routes map[string]*totals // or services, or methods
	bounds []float64          // of the buckets, in seconds
}

// readings are the values of the metrics at one moment.
type readings struct {
	measured

	services measured
	methods  measured // calls that were answered, by "service.method"; those with PermissionDenied are rejected
	gauges   map[string]float64
	inFlight map[string]float64 // calls in flight, by service
}

func newReadings(families []*dto.MetricFamily) readings {
	r := readings{
		measured: measured{routes: make(map[string]*totals)}, services: measured{routes: make(map[string]*totals)},
		methods: measured{routes: make(map[string]*totals)},
		gauges:  make(map[string]float64), inFlight: make(map[string]float64),
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
		r.of(label(m, "route")).requests[classOf(label(m, "status"))] += m.GetCounter().GetValue()
	case metricDuration:
		r.addDurations(label(m, "route"), m.GetHistogram())
	case metricCallTimes:
		r.services.addDurations(label(m, "service"), m.GetHistogram())
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
	r.methods.of(label(m, "service") + "." + label(m, "method")).requests[c] += float64(m.GetHistogram().GetSampleCount())
}

// addDurations adds the buckets of a histogram. All have the same bounds.
func (r *measured) addDurations(name string, h *dto.Histogram) {
	bounds, counts := make([]float64, 0, len(h.GetBucket())), make([]uint64, 0, len(h.GetBucket())+1)
	for _, b := range h.GetBucket() {
		bounds, counts = append(bounds, b.GetUpperBound()), append(counts, b.GetCumulativeCount())
	}
	counts = append(counts, h.GetSampleCount())
	if r.bounds == nil {
		r.bounds = bounds
	}
	if len(bounds) == 0 || !slices.Equal(bounds, r.bounds) {
		return
	}
	t := r.of(name)
	for i, n := range t.buckets {
		counts[i] += n
	}
	t.buckets = counts
}

func (r *measured) of(name string) *totals {
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
