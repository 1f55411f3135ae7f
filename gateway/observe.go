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

// An outcome is how a request ended.
type outcome struct {
	status int
	code   string
}

// An ending is what all requests of one operation and outcome have in common, made once: a counter, which by its labels would
// be hashed for each request, and a log whose lines begin with the operation and the outcome.
type ending struct {
	counter prometheus.Counter
	log     slog.Handler
}

// An observer is what is observed of one operation.
type observer struct {
	id       string
	metrics  *metrics
	log      slog.Handler
	duration prometheus.Observer
	endings  atomic.Pointer[map[outcome]ending]
}

func (m *metrics) observer(id string, log slog.Handler) *observer {
	o := &observer{id: id, metrics: m, log: log, duration: m.duration.WithLabelValues(id)}
	o.endings.Store(&map[outcome]ending{})
	return o
}

// ending returns what requests of the outcome have in common. The map is copied when it grows, so that reading it takes no
// lock; when two requests grow it at once, one of them makes its entry anew the next time.
func (o *observer) ending(how outcome) ending {
	known := *o.endings.Load()
	if e, ok := known[how]; ok {
		return e
	}
	e := ending{
		counter: o.metrics.requests.WithLabelValues(o.id, strconv.Itoa(how.status), how.code),
		log:     o.log.WithAttrs([]slog.Attr{slog.String("route", o.id), slog.Int("status", how.status), slog.String("code", how.code)}),
	}
	grown := maps.Clone(known)
	grown[how] = e
	o.endings.Store(&grown)
	return e
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
	ending := r.route.observer.ending(s.outcome)
	ending.counter.Inc()
	r.route.observer.duration.Observe(elapsed.Seconds())

	level := slog.LevelInfo
	if s.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if level == slog.LevelInfo && g.quietAccess || !ending.log.Enabled(r.ctx, level) {
		return
	}
	// A record made here, not by the logger, has no source position: finding it would cost more than the rest of the line.
	line := slog.NewRecord(r.start.Add(elapsed), level, "request", 0)
	attrs := append(make([]slog.Attr, 0, 7),
		slog.String("request_id", r.id),
		slog.String("method", r.method()),
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
	_ = ending.log.Handle(r.ctx, line) // a log that cannot be written has nobody to tell
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
