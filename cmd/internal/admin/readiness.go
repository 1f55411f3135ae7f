package admin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// The phases of a gateway.
const (
	starting int32 = iota
	serving
	draining
)

// What a gateway is said to be, on /readyz and by the metrics.
const (
	statusStarting = "starting"
	statusReady    = "ready"
	statusDegraded = "degraded" // it serves, and something that it needs is not as it should be
	statusDraining = "draining"
)

// readiness is how a gateway fares, as /readyz says it.
type readiness struct {
	Status       string                `json:"status"`
	Dependencies map[string]Dependency `json:"dependencies"`
}

// readiness is the one opinion on how the gateway fares now.
func (a *Admin) readiness() readiness {
	r := readiness{Status: statusReady, Dependencies: a.dependencies()}
	for _, d := range r.Dependencies {
		if !d.OK {
			r.Status = statusDegraded
		}
	}
	switch a.phase.Load() {
	case starting:
		r.Status = statusStarting
	case draining:
		r.Status = statusDraining
	}
	return r
}

func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	answer, status := a.readiness(), http.StatusOK
	if answer.Status == statusStarting || answer.Status == statusDraining {
		status = http.StatusServiceUnavailable
	}
	respond(w, status, answer)
}

// Readiness returns what tells Prometheus what /readyz would say at the time of a scrape.
func (a *Admin) Readiness() prometheus.Collector {
	return &readinessMetrics{
		of: a.readiness,
		state: prometheus.NewDesc("opsgate_readiness",
			"1 for what /readyz says of this gateway: starting, ready, degraded (it serves, and lacks something), or draining.",
			[]string{"state"}, nil),
		dependency: prometheus.NewDesc("opsgate_dependency_ok",
			"Whether what this gateway needs is as it should be, by its name on /readyz, which has the reason where it is not.",
			[]string{"dependency"}, nil),
	}
}

// readinessMetrics ask when they are scraped: what was noted beforehand could differ from what /readyz says.
type readinessMetrics struct {
	of                func() readiness
	state, dependency *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (m *readinessMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- m.state
	descriptions <- m.dependency
}

// Collect implements [prometheus.Collector].
func (m *readinessMetrics) Collect(metrics chan<- prometheus.Metric) {
	now := m.of()
	for _, state := range []string{statusStarting, statusReady, statusDegraded, statusDraining} {
		metrics <- flag(m.state, now.Status == state, state)
	}
	for name, d := range now.Dependencies {
		metrics <- flag(m.dependency, d.OK, name)
	}
}

// flag is 1 or 0.
func flag(of *prometheus.Desc, is bool, label string) prometheus.Metric {
	value := 0.0
	if is {
		value = 1
	}
	return prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, label) // each description has one label
}
