package edge

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of a reload.
const (
	outcomeApplied   = "applied"   // another configuration is in force
	outcomeUnchanged = "unchanged" // what was read says the same as before
	outcomeRefused   = "refused"   // what was read is wrong, and the old configuration stays
)

// configMetrics tell which configuration is in force. Only one at a time may change them.
type configMetrics struct {
	successful prometheus.Gauge
	successAt  prometheus.Gauge
	count      *prometheus.CounterVec
	info       *prometheus.GaugeVec
	version    string // that info shows
}

func newConfigMetrics(registry prometheus.Registerer) (*configMetrics, error) {
	m := &configMetrics{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "opsgate_config_last_reload_successful",
			Help: "1 when what the configuration says is in force, 0 when the last reload was refused.",
		}),
		successAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "opsgate_config_last_reload_success_timestamp_seconds",
			Help: "When a configuration was last read and found good.",
		}),
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_config_reloads_total",
			Help: "Reloads by outcome: applied, unchanged, or refused.",
		}, []string{"outcome"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "opsgate_config_info",
			Help: "1, with the version of the configuration in force as label.",
		}, []string{"version"}),
	}
	for _, outcome := range []string{outcomeApplied, outcomeUnchanged, outcomeRefused} {
		m.count.WithLabelValues(outcome) // a rate needs a zero to begin with
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.successful, m.successAt, m.count, m.info} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

// inForce notes that a configuration was read at a time and is in force from then on.
func (m *configMetrics) inForce(version string, now time.Time) {
	m.info.WithLabelValues(version).Set(1)
	if m.version != version {
		m.info.DeleteLabelValues(m.version)
		m.version = version
	}
	m.successful.Set(1)
	m.successAt.Set(float64(now.UnixMilli()) / 1e3)
}
