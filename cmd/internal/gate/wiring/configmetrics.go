package wiring

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/gate/admin"
)

// configMetrics are the metrics of the active configuration. The caller serializes calls.
type configMetrics struct {
	successful prometheus.Gauge
	successAt  prometheus.Gauge
	reloads    *prometheus.CounterVec
	info       *prometheus.GaugeVec
	refused    *prometheus.GaugeVec
	version    string   // label value of info
	keys       []string // label values of refused
}

func newConfigMetrics(registry prometheus.Registerer) (*configMetrics, error) {
	m := &configMetrics{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "opsgate_config_last_reload_successful",
			Help: "1 if the last reload succeeded, 0 if it was refused.",
		}),
		successAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "opsgate_config_last_reload_success_timestamp_seconds",
			Help: "Time of the last successful read of the configuration.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_config_reloads_total",
			Help: "Reloads by outcome.",
		}, []string{"outcome"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "opsgate_config_info",
			Help: "1, with the version of the active configuration as label.",
		}, []string{"version"}),
		refused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "opsgate_config_refused",
			Help: "1 for each key that the last reload was refused for, unknown for an unknown one, file for the whole file.",
		}, []string{"key"}),
	}
	for _, outcome := range []string{admin.ReloadApplied, admin.ReloadUnchanged, admin.ReloadRefused} {
		m.reloads.WithLabelValues(outcome) // a rate needs an initial zero
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.successful, m.successAt, m.reloads, m.info, m.refused} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

// setActive sets the metrics after a successful read. version is the active version, now the time
// of the read.
func (m *configMetrics) setActive(version string, now time.Time) {
	m.info.WithLabelValues(version).Set(1)
	if m.version != version {
		m.info.DeleteLabelValues(m.version)
		m.version = version
	}
	m.successful.Set(1)
	m.successAt.Set(float64(now.UnixMilli()) / 1e3)
}

// setRefused sets the keys for which the last reload was refused. A key that is refused again keeps
// its series.
func (m *configMetrics) setRefused(keys []string) {
	for _, key := range m.keys {
		if !slices.Contains(keys, key) {
			m.refused.DeleteLabelValues(key)
		}
	}
	for _, key := range keys {
		m.refused.WithLabelValues(key).Set(1)
	}
	m.keys = keys
}
