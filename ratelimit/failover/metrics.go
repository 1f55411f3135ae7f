package failover

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// modeShared is the value of the label mode while the shared store decides.
const modeShared = "shared"

type metrics struct {
	failures [classes]prometheus.Counter
	settled  prometheus.Counter
	refunds  prometheus.Counter
	outages  prometheus.Counter
}

// newMetrics registers the metrics of a store. Gauges are evaluated when they are collected.
func (s *Store) newMetrics(registry prometheus.Registerer) (*metrics, error) {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_store_failures_total",
		Help: "Calls of the shared store of rate limits that failed, by cause (timeout, refused, other).",
	}, []string{"cause"})
	m := &metrics{
		settled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_settled_total",
			Help: "Uploads of a token's account or local admissions to the shared store of rate limits after an outage or a failed call.",
		}),
		refunds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_lost_refunds_total",
			Help: "Refunds that were lost, as the shared store of rate limits was not in use or failed.",
		}),
		outages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_outages_total",
			Help: "Times that the shared store of rate limits went out of use, however briefly.",
		}),
	}
	for c := range classes {
		m.failures[c] = failures.WithLabelValues(c.String())
	}
	collectors := []prometheus.Collector{failures, m.settled, m.refunds, m.outages}
	for _, mode := range []string{modeShared, string(Local), string(Allow), string(Deny)} {
		collectors = append(collectors, gaugeOf(prometheus.GaugeOpts{
			Name:        "opsgate_rate_limit_store_mode",
			Help:        "1 for what decides on rate limits: the shared store, or the mode while it is not in use (local, allow, deny).",
			ConstLabels: prometheus.Labels{"mode": mode},
		}, func() bool { return s.mode() == mode }))
	}
	for _, state := range []gobreaker.State{gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen} {
		collectors = append(collectors, gaugeOf(prometheus.GaugeOpts{
			Name:        "opsgate_rate_limit_store_breaker_state",
			Help:        "1 for the state of the breaker before the shared store of rate limits (closed, half-open, open).",
			ConstLabels: prometheus.Labels{"state": state.String()},
		}, func() bool { return s.breakerState() == state }))
	}
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the shared store of rate limits: %w", err)
		}
	}
	return m, nil
}

func gaugeOf(o prometheus.GaugeOpts, is func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(o, func() float64 {
		if is() {
			return 1
		}
		return 0
	})
}

// mode returns the value of the label mode.
func (s *Store) mode() string {
	if s.phase.Load().away {
		return string(s.configured.Load().Mode)
	}
	return modeShared
}
