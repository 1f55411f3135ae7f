package gateway

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the gateway counts. Labels are route ids, statuses and codes: sets that are closed.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_http_requests_total",
			Help: "Requests answered, by operation, status and error code (ok for a success). Status 499 is a client that hung up.",
		}, []string{"route", "status", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "opsgate_http_request_duration_seconds",
			Help:    "Time from the end of a request's header to its answer being handed to the connection, by operation.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "opsgate_http_requests_in_flight",
			Help: "Requests being worked on.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_http_panics_total",
			Help: "Requests that ended in a panic, each answered as internal_error. Any is a bug.",
		}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.inFlight, m.panics} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

// routeMetrics are the metrics of one operation, looked up once: by label they would be hashed for each request.
type routeMetrics struct {
	id       string
	all      *metrics
	duration prometheus.Observer
	inFlight prometheus.Gauge
	requests atomic.Pointer[map[outcome]prometheus.Counter]
}

// An outcome is how a request ended.
type outcome struct {
	status int
	code   string
}

func (m *metrics) of(id string) *routeMetrics {
	rm := &routeMetrics{id: id, all: m, duration: m.duration.WithLabelValues(id), inFlight: m.inFlight}
	rm.requests.Store(&map[outcome]prometheus.Counter{})
	return rm
}

// count adds one request. The map of counters is copied when it grows, so that reading it takes no lock; two requests that
// grow it at once may lose one entry, not one count, since both hold the same counter.
func (rm *routeMetrics) count(o outcome) {
	known := *rm.requests.Load()
	counter, ok := known[o]
	if !ok {
		counter = rm.all.requests.WithLabelValues(rm.id, strconv.Itoa(o.status), o.code)
		grown := maps.Clone(known)
		grown[o] = counter
		rm.requests.Store(&grown)
	}
	counter.Inc()
}

// sent is what was sent to the client.
type sent struct {
	outcome
	bytes int
	cause error // nil for a success and for refusals that need no explanation
}

// observe counts the request and writes its line to the log. The line has nothing of the request that could hold a token:
// neither headers nor query nor body.
func (g *Gateway) observe(r *Request, s sent) {
	elapsed := g.clock().Sub(r.start)
	r.route.metrics.duration.Observe(elapsed.Seconds())
	r.route.metrics.count(s.outcome)

	level := slog.LevelInfo
	if s.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if level == slog.LevelInfo && g.quietAccess || !g.logger.Enabled(r.ctx, level) {
		return
	}
	// A record made here, not by the logger, has no source position: finding it would cost more than the rest of the line.
	line := slog.NewRecord(r.start.Add(elapsed), level, "request", 0)
	attrs := append(make([]slog.Attr, 0, 10),
		slog.String("request_id", r.id),
		slog.String("method", r.method()),
		slog.String("route", r.route.ID),
		slog.Int("status", s.status),
		slog.String("code", s.code),
		slog.Int64("latency_us", elapsed.Microseconds()),
		slog.Int("bytes", s.bytes),
	)
	if r.principal != nil {
		attrs = append(attrs, slog.String("team_id", r.principal.TeamID), slog.String("token_id", r.principal.TokenID))
	}
	if s.cause != nil {
		attrs = append(attrs, slog.String("cause", s.cause.Error()))
	}
	line.AddAttrs(attrs...)
	_ = g.logger.Handler().Handle(r.ctx, line) // a log that cannot be written has nobody to tell
}

// method returns the request's method for the log: one of those that HTTP knows, since the log is no place for a client's own
// words.
func (r *Request) method() string {
	switch m := r.http().Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
		http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
