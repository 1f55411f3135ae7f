package admin

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"opsgate/cmd/internal/kit/buildinfo"
)

// NewRegistry returns a registry with the metrics of the Go runtime, the process, and the build.
func NewRegistry(build buildinfo.Info) *prometheus.Registry {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "opsgate_build_info",
		Help: "1, with the build as labels.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion,
		},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister( // cannot fail: the registry is empty
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}
