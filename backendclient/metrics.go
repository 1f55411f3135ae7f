package backendclient

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/breaker"
	"opsgate/backendclient/endpoints"
)

// metrics are the metrics of all services.
type metrics struct {
	registerer prometheus.Registerer
	registered []prometheus.Collector // by register

	durations     *prometheus.HistogramVec
	breakers      *prometheus.GaugeVec
	refused       *prometheus.CounterVec
	retries       *prometheus.CounterVec
	withheld      *prometheus.CounterVec
	ejections     *prometheus.CounterVec
	failedLookups *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	return &metrics{
		registerer: registerer,
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "opsgate_upstream_request_duration_seconds",
			Help:    "Time of unary calls to the internal services, all attempts together, by service, method and gRPC code.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"service", "method", "code"}),
		breakers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "opsgate_upstream_breaker_state",
			Help: "1 for the worst state of the breakers of an internal service's methods.",
		}, []string{"service", "state"}),
		refused: counter("opsgate_upstream_refused_requests_total",
			"Attempts that were not made, or (team_overloaded) whose large response waited for others until the deadline.",
			"service", "reason"),
		retries: counter("opsgate_upstream_retries_total", "Attempts after the first of a call.", "service"),
		withheld: counter("opsgate_upstream_retries_withheld_total",
			"Retries that were not made because the retry budget was exhausted.", "service"),
		ejections: counter("opsgate_upstream_ejections_total",
			"How often an endpoint of an internal service was ejected.", "service"),
		failedLookups: counter("opsgate_upstream_dns_failures_total",
			"Lookups of the name of an internal service that failed or returned no address.", "service"),
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// registerVectors registers the metrics that all services share. Metrics of calls in flight are
// registered for each service; see registerInFlight.
func (m *metrics) registerVectors() error {
	return m.register(m.durations, m.breakers, m.refused, m.retries, m.withheld, m.ejections, m.failedLookups)
}

func (m *metrics) register(collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		if err := m.registerer.Register(c); err != nil {
			return fmt.Errorf("backend client metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

// unregister unregisters everything that register has registered.
func (m *metrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
}

// upstreamMetrics are the metrics of one service.
type upstreamMetrics struct {
	breakers                     *prometheus.GaugeVec          // by state
	refused                      map[string]prometheus.Counter // by reason of an Error
	retries, withheld, ejections prometheus.Counter
	failedLookups                prometheus.Counter
}

func (m *metrics) forService(service string) upstreamMetrics {
	return upstreamMetrics{
		breakers: m.breakers.MustCurryWith(prometheus.Labels{"service": service}),
		refused: map[string]prometheus.Counter{
			ReasonOverloaded:     m.refused.WithLabelValues(service, "overloaded"),
			ReasonTeamOverloaded: m.refused.WithLabelValues(service, "team_overloaded"),
			ReasonBreakerOpen:    m.refused.WithLabelValues(service, "breaker_open"),
		},
		retries:       m.retries.WithLabelValues(service),
		withheld:      m.withheld.WithLabelValues(service),
		ejections:     m.ejections.WithLabelValues(service),
		failedLookups: m.failedLookups.WithLabelValues(service),
	}
}

// endpointsCollector collects the number of endpoints.
type endpointsCollector struct {
	clients *Clients
	desc    *prometheus.Desc
}

func newEndpointsCollector(c *Clients) endpointsCollector {
	return endpointsCollector{c, prometheus.NewDesc("opsgate_upstream_endpoints",
		"Addresses of an internal service by state.",
		[]string{"service", "state"}, nil)}
}

// Describe implements [prometheus.Collector].
func (c endpointsCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements [prometheus.Collector].
func (c endpointsCollector) Collect(to chan<- prometheus.Metric) {
	for service, u := range c.clients.upstreams {
		count := make(map[endpoints.State]int)
		for _, e := range u.connection.Load().endpoints.Statuses() {
			count[e.State]++
		}
		for _, state := range endpoints.States() {
			to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(count[state]), service, string(state))
		}
	}
}

// registerInFlight registers the number of calls in flight and its limit.
func (m *metrics) registerInFlight(u *upstream) error {
	service := prometheus.Labels{"service": u.service}
	inFlight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_upstream_requests_in_flight", ConstLabels: service,
		Help: "Unary calls to an internal service in flight.",
	}, func() float64 { return float64(u.slots.Taken()) })
	limit := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_upstream_requests_in_flight_limit", ConstLabels: service,
		Help: "Maximum number of unary calls to an internal service in flight.",
	}, func() float64 { return float64(u.settings.Load().MaxInFlight) })
	return m.register(inFlight, limit)
}

func (m upstreamMetrics) setBreakerState(state breaker.State) {
	for _, s := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen} {
		value := 0.0
		if s == state {
			value = 1
		}
		m.breakers.WithLabelValues(string(s)).Set(value)
	}
}
