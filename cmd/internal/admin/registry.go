package admin

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"opsgate/cmd/internal/buildinfo"
)

// NewRegistry makes a registry of metrics with what every process has: the Go runtime, the process, and the build.
func NewRegistry(build buildinfo.Info) *prometheus.Registry {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "opsgate_build_info",
		Help: "1, with what was built as labels.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion,
		},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister( // three collectors in an empty registry: nothing can be there already
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}
