package gateway

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/timings"
)

// Metrics are the metrics of a process. All its Gateways share them, so that metrics continue when
// the configuration changes. Each label has a limited number of values.
type Metrics struct {
	requests      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	waits         *prometheus.HistogramVec
	waitObservers [timings.NumParts]prometheus.Observer
	panics        prometheus.Counter

	decisions      *prometheus.CounterVec
	localDecisions prometheus.Counter
	cachedDenials  prometheus.Counter

	unknownClasses prometheus.Counter
	warnedAt       atomic.Int64 // time of the last warning about an unknown class, in ns

	refunds        prometheus.Counter
	refundsDropped *prometheus.CounterVec
}

// NewMetrics returns registered metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := newMetrics()
	var errs []error
	for _, c := range []prometheus.Collector{
		m.requests, m.duration, m.waits, m.panics, m.decisions, m.localDecisions, m.cachedDenials, m.refunds,
		m.refundsDropped, m.unknownClasses,
	} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the gateway's metrics: %w", err)
	}
	return m, nil
}

func newMetrics() *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_http_requests_total",
			Help: "Responses by operation id, status (499: the client disconnected), error code (or ok) and cause (empty for " +
				"a success).",
		}, []string{"route", "status", "code", "cause"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "opsgate_http_request_duration_seconds",
			Help:    "Time from a request's header until its response is made, without that in which the body arrived.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "opsgate_http_request_wait_seconds",
			Help:    "Time that a request waited for identity, limiter or service, if it did.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"part"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_http_panics_total",
			Help: "Requests that ended in a panic, each with the response internal_error. Each is a bug.",
		}),
	}
	m.newLimitMetrics()
	for part, name := range [timings.NumParts]string{timings.Identity: "identity", timings.Limiter: "limiter",
		timings.Service: "service"} {
		m.waitObservers[part] = m.waits.WithLabelValues(name)
	}
	return m
}

func (m *Metrics) newLimitMetrics() {
	m.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_decisions_total",
		Help: "Decisions by class (default, team, token or its name) and limit. An admitted request counts for each " +
			"limit, as near if less than a fifth of it remains; a denied one for that with the longest wait.",
	}, []string{"policy", "limit", "outcome"})
	m.unknownClasses = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_unknown_class_requests_total",
		Help: "Requests decided by the default limits because identity names a class that the configuration does not have.",
	})
	m.refunds = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_refunds_total",
		Help: "Requests that failed with 5xx and were refunded.",
	})
	m.refundsDropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_refunds_dropped_total",
		Help: "Requests that failed with 5xx and were not refunded. failed: the limiter returned an error.",
	}, []string{"reason"})
	m.localDecisions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_local_decisions_total",
		Help: "Decisions that this gateway made by its share, without the shared store.",
	})
	m.cachedDenials = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_cached_refusals_total",
		Help: "Denials that were repeated from the cache, without a call to the store.",
	})
	for _, reason := range []string{refundQueueFull, refundFailed, refundShutdown} {
		m.refundsDropped.WithLabelValues(reason)
	}
}

func (m *Metrics) observeTimings(t *timings.Timings) {
	for part, observer := range m.waitObservers {
		if took := t.Waited(timings.Part(part)); took > 0 {
			observer.Observe(took.Seconds())
		}
	}
}

// The outcomes of a decision for one limit.
const (
	outcomeAdmitted     = "admitted"
	outcomeNear         = "near"
	outcomeDenied       = "denied"
	outcomeShadowDenied = "shadow_denied"
)

// limitCounters count the decisions of one limit.
type limitCounters struct {
	admitted, near prometheus.Counter
	denied         prometheus.Counter // outcome denied, or shadow_denied for a shadow limit
}

func (m *Metrics) limitCounters(policy, limit string, shadow bool) *limitCounters {
	denied := outcomeDenied
	if shadow {
		denied = outcomeShadowDenied
	}
	return &limitCounters{
		admitted: m.decisions.WithLabelValues(policy, limit, outcomeAdmitted),
		near:     m.decisions.WithLabelValues(policy, limit, outcomeNear),
		denied:   m.decisions.WithLabelValues(policy, limit, denied),
	}
}
