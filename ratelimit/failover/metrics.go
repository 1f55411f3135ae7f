package failover

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// modeShared is the mode, in metrics, in which the shared store decides.
const modeShared = "shared"

type metrics struct {
	failures [classes]prometheus.Counter
	settled  prometheus.Counter
	refunds  prometheus.Counter
	outages  prometheus.Counter
}

// newMetrics registers the metrics of a store. Gauges read how it stands when they are asked.
func (s *Store) newMetrics(registry prometheus.Registerer) (*metrics, error) {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_store_failures_total",
		Help: "Calls of the shared store of budgets that failed, by cause (timeout, refused, other).",
	}, []string{"cause"})
	m := &metrics{
		settled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_settled_total",
			Help: "Times that the shared store of budgets, back after an outage, was told what a token had spent.",
		}),
		refunds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_lost_refunds_total",
			Help: "Admissions that were not given back, because the shared store of budgets was away or came back meanwhile.",
		}),
		outages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_outages_total",
			Help: "Times that the shared store of budgets went out of use, however briefly.",
		}),
	}
	for c := range classes {
		m.failures[c] = failures.WithLabelValues(c.String())
	}
	collectors := []prometheus.Collector{failures, m.settled, m.refunds, m.outages}
	for _, mode := range []string{modeShared, string(Local), string(Allow), string(Deny)} {
		collectors = append(collectors, gaugeOf(prometheus.GaugeOpts{
			Name:        "opsgate_rate_limit_store_mode",
			Help:        "Who decides on budgets: 1 for the shared store or for what is done while it is away (local, allow, deny).",
			ConstLabels: prometheus.Labels{"mode": mode},
		}, func() bool { return s.mode() == mode }))
	}
	for _, state := range []gobreaker.State{gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen} {
		collectors = append(collectors, gaugeOf(prometheus.GaugeOpts{
			Name:        "opsgate_rate_limit_store_breaker_state",
			Help:        "1 for the state of the breaker before the shared store of budgets (closed, half-open, open).",
			ConstLabels: prometheus.Labels{"state": state.String()},
		}, func() bool { return s.breakerState() == state }))
	}
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the shared store of budgets: %w", err)
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

// mode says who decides.
func (s *Store) mode() string {
	if s.phase.Load().away {
		return string(s.configured.Load().Mode)
	}
	return modeShared
}
