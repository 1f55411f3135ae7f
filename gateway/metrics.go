package gateway

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/timings"
)

// Metrics are the metrics of all Gateways in a process, so that they continue when the configuration changes. All labels have a limited
// number of values.
type Metrics struct {
	requests      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	waits         *prometheus.HistogramVec
	waitObservers [timings.NumParts]prometheus.Observer
	panics        prometheus.Counter

	decisions *prometheus.CounterVec
	local     prometheus.Counter
	cached    prometheus.Counter

	refunds        prometheus.Counter
	refundsDropped *prometheus.CounterVec
}

// NewMetrics returns registered metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := newMetrics()
	var errs []error
	for _, c := range []prometheus.Collector{
		m.requests, m.duration, m.waits, m.panics, m.decisions, m.local, m.cached, m.refunds, m.refundsDropped,
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
			Help: "Requests answered, by operation, status, error code (ok for a success) and the cause of a refusal or failure (empty for a" +
				" success). Status 499 is a client that hung up.",
		}, []string{"route", "status", "code", "cause"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "opsgate_http_request_duration_seconds",
			Help:    "Time from the end of a request's header to its answer being handed to the connection, less that of its body, by operation.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "opsgate_http_request_wait_seconds",
			Help: "Time that a request waitObservers for another part, all of its calls together: identity, limiter or service. Requests that" +
				" did not wait are not in it.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"part"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_http_panics_total",
			Help: "Requests that ended in a panic, each answered as internal_error. Any is a bug.",
		}),
	}
	m.newLimitMetrics()
	for part, name := range [timings.NumParts]string{timings.Identity: "identity", timings.Limiter: "limiter", timings.Service: "service"} {
		m.waitObservers[part] = m.waits.WithLabelValues(name)
	}
	return m
}

// newLimitMetrics adds the metrics of decisions and refunds.
func (m *Metrics) newLimitMetrics() {
	m.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_decisions_total",
		Help: "Decisions by limit. A request that is admitted counts once for each limit of its policy that it was spent in: as near" +
			" where it left less than a fifth of the limit, else as admitted. One that is refused counts once, as denied, for the limit" +
			" that keeps it out longest. One that is admitted and would be refused by limits in shadow is spent in none of those, and" +
			" counts for the one that would keep it out longest, as shadow_denied. Requests given back later stay counted.",
	}, []string{"policy", "limit", "outcome"})
	m.refunds = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_refunds_total",
		Help: "Requests that failed because of us and were given back to their tokens' budgets.",
	})
	m.refundsDropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_refunds_dropped_total",
		Help: "Requests that failed because of us and were not refunded, by reason. queue_full: too many refunds were waiting. failed: the" +
			" limiter returned an error. shutdown: the gateway ended first.",
	}, []string{"reason"})
	m.local = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_local_decisions_total",
		Help: "Decisions that this gateway made alone, as the store that gateways share was away.",
	})
	m.cached = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_cached_refusals_total",
		Help: "Refusals that still held and were repeated without asking the store.",
	})
	for _, reason := range []string{refundQueueFull, refundFailed, refundShutdown} {
		m.refundsDropped.WithLabelValues(reason)
	}
}

// observeTimings records the times that a request waited for other services.
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
