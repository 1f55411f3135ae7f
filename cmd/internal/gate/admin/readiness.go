package admin

import (
	"net/http"
	"slices"

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

// Serving makes the gateway ready, unless it is draining.
func (a *Admin) Serving() { a.phase.CompareAndSwap(starting, serving) }

// Draining makes the gateway permanently not ready.
func (a *Admin) Draining() { a.phase.Store(draining) }

func livez(w http.ResponseWriter, _ *http.Request) {
	setHeader(w, "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// status returns the state of the gateway with these dependencies.
func (a *Admin) status(list []*Dependency) string {
	switch phase := a.phase.Load(); {
	case phase == starting:
		return statusStarting
	case phase == draining:
		return statusDraining
	case slices.ContainsFunc(list, func(d *Dependency) bool { return d.notReady }):
		return statusNotReady
	case slices.ContainsFunc(list, func(d *Dependency) bool { return !d.OK }):
		return statusDegraded
	}
	return statusReady
}

func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	list := a.dependencies(a.options.Clock())
	state, code := a.status(list), http.StatusServiceUnavailable
	if state == statusReady || state == statusDegraded {
		code = http.StatusOK
	}
	conditions := make(map[string]Condition, len(list))
	for _, d := range list {
		conditions[d.Name] = d.Condition
	}
	Respond(w, code, struct {
		Status       string               `json:"status"`
		Dependencies map[string]Condition `json:"dependencies"`
	}{state, conditions})
}

// Describe implements [prometheus.Collector].
func (a *Admin) Describe(descriptions chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(a, descriptions)
}

// Collect implements [prometheus.Collector]. The metrics of readiness are read during a scrape, so
// that they agree with /readyz.
func (a *Admin) Collect(metrics chan<- prometheus.Metric) {
	a.refusals.Collect(metrics)
	state := prometheus.NewDesc("opsgate_readiness",
		"1 for the state on /readyz. degraded: it serves, but a dependency is not OK.", []string{"state"}, nil)
	dependency := prometheus.NewDesc("opsgate_dependency_ok",
		"0 for a dependency with a problem, by its name on /readyz, which has the reason.", []string{"dependency"}, nil)
	list := a.dependencies(a.options.Clock())
	current, number := a.status(list), map[bool]float64{true: 1, false: 0}
	for _, s := range []string{statusStarting, statusReady, statusDegraded, statusNotReady, statusDraining} {
		metrics <- prometheus.MustNewConstMetric(state, prometheus.GaugeValue, number[s == current], s)
	}
	for _, d := range list {
		metrics <- prometheus.MustNewConstMetric(dependency, prometheus.GaugeValue, number[d.OK], d.Name)
	}
}
