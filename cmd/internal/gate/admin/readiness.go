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

// The states of a gateway, on /readyz and in metrics.
const (
	statusStarting = "starting"
	statusReady    = "ready"
	statusDegraded = "degraded"  // it serves, but a dependency is not OK
	statusNotReady = "not_ready" // a dependency makes it unfit for requests
	statusDraining = "draining"
)

// readiness is the response of /readyz.
type readiness struct {
	Status       string                `json:"status"`
	Dependencies map[string]Dependency `json:"dependencies"`
}

// readiness returns the current state, for /readyz and for metrics.
func (a *Admin) readiness() readiness {
	r := readiness{Status: statusReady, Dependencies: a.dependencies()}
	for _, d := range r.Dependencies {
		switch {
		case d.NotReady:
			r.Status = statusNotReady
		case !d.OK && r.Status == statusReady:
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
	state, status := a.readiness(), http.StatusServiceUnavailable
	if state.Status == statusReady || state.Status == statusDegraded {
		status = http.StatusOK
	}
	Respond(w, status, state)
}

// Readiness returns a collector of the state that /readyz returns at the time of a scrape.
func (a *Admin) Readiness() prometheus.Collector {
	return &readinessMetrics{
		current: a.readiness,
		state: prometheus.NewDesc("opsgate_readiness",
			"1 for the state on /readyz. degraded: it serves, but a dependency is not OK.",
			[]string{"state"}, nil),
		dependency: prometheus.NewDesc("opsgate_dependency_ok",
			"0 for a dependency with a problem, by its name on /readyz, which has the reason.",
			[]string{"dependency"}, nil),
	}
}

// readinessMetrics reads the state during a scrape, so that it agrees with /readyz.
type readinessMetrics struct {
	current           func() readiness
	state, dependency *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (m *readinessMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- m.state
	descriptions <- m.dependency
}

// Collect implements [prometheus.Collector].
func (m *readinessMetrics) Collect(metrics chan<- prometheus.Metric) {
	now := m.current()
	for _, state := range []string{statusStarting, statusReady, statusDegraded, statusNotReady, statusDraining} {
		metrics <- boolGauge(m.state, now.Status == state, state)
	}
	for name, d := range now.Dependencies {
		metrics <- boolGauge(m.dependency, d.OK, name)
	}
}

func boolGauge(desc *prometheus.Desc, set bool, label string) prometheus.Metric {
	value := 0.0
	if set {
		value = 1
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label) // each description has one label
}
