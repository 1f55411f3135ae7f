package backendclient

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of all guards.
type metrics struct {
	registerer prometheus.Registerer
	breakers   *prometheus.GaugeVec
	refused    *prometheus.CounterVec
	retries    *prometheus.CounterVec
	withheld   *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		registerer: registerer,
		breakers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "opsgate_upstream_breaker_state",
			Help: "1 for the state that the circuit breaker of an internal service is in: closed, open or half-open.",
		}, []string{"service", "state"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_upstream_refused_requests_total",
			Help: "Attempts that were not made: the breaker was open, or too many calls were under way.",
		}, []string{"service", "reason"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_upstream_retries_total",
			Help: "Attempts after the first of a call.",
		}, []string{"service"}),
		withheld: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_upstream_retries_withheld_total",
			Help: "Calls that were not tried again because the budget of retries was spent.",
		}, []string{"service"}),
	}
	for _, c := range []prometheus.Collector{m.breakers, m.refused, m.retries, m.withheld} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// guardMetrics are those of one service.
type guardMetrics struct {
	breakers                              *prometheus.GaugeVec // by state
	overloaded, broken, retries, withheld prometheus.Counter
}

func (m *metrics) of(service string) guardMetrics {
	return guardMetrics{
		breakers:   m.breakers.MustCurryWith(prometheus.Labels{"service": service}),
		overloaded: m.refused.WithLabelValues(service, "overloaded"),
		broken:     m.refused.WithLabelValues(service, "breaker_open"),
		retries:    m.retries.WithLabelValues(service),
		withheld:   m.withheld.WithLabelValues(service),
	}
}

// watch has the calls under way of a guard among the metrics, and how many may be.
func (m *metrics) watch(g *guard) error {
	service := prometheus.Labels{"service": g.service}
	underWay := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_upstream_requests_in_flight", ConstLabels: service,
		Help: "Unary calls to an internal service that are under way.",
	}, func() float64 { return float64(g.inFlight.Load()) })
	bound := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_upstream_requests_in_flight_limit", ConstLabels: service,
		Help: "How many unary calls to an internal service may be under way.",
	}, func() float64 { return float64(g.current.Load().under.MaxInFlight) })
	return errors.Join(m.registerer.Register(underWay), m.registerer.Register(bound))
}

func (m guardMetrics) breakerIs(state BreakerState) {
	for _, s := range []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen} {
		value := 0.0
		if s == state {
			value = 1
		}
		m.breakers.WithLabelValues(string(s)).Set(value)
	}
}
