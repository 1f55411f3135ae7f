package failover

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
)

type metrics struct {
	failures    *prometheus.CounterVec
	uploads     prometheus.Counter
	lostRefunds prometheus.Counter
	outages     prometheus.Counter
}

// newMetrics registers the metrics of a store.
func (s *Store) newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_failures_total",
			Help: "Calls of the shared store of rate limits that failed, by cause. stalled: the gateway did not run for half of the call.",
		}, []string{"cause"}),
		uploads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_uploads_total",
			Help: "Uploads of a token's account or local admissions to the shared store of rate limits after an outage or a failed call.",
		}),
		lostRefunds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_lost_refunds_total",
			Help: "Refunds that were lost, as the shared store of rate limits was not in use or failed.",
		}),
		outages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_outages_total",
			Help: "Outages of the shared store of rate limits, including short ones.",
		}),
	}
	for _, kind := range []string{timeout, refused, stalled, other} {
		m.failures.WithLabelValues(kind) // 0 before the first failure
	}
	clock := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_rate_limit_store_clock_difference_seconds",
		Help: "Time of the clock of the shared store of rate limits minus that of the gateway when it started.",
	}, func() float64 { return s.clockDifference().Seconds() })
	collectors := slices.Concat([]prometheus.Collector{m.failures, m.uploads, m.lostRefunds, m.outages, clock},
		oneOf("opsgate_rate_limit_store_mode",
			"1 for the current mode of rate limits: shared, or during an outage of the shared store local, allow or deny.",
			"mode", func() ratelimit.Mode { return s.State().Mode },
			ratelimit.ModeShared, ratelimit.ModeLocal, ratelimit.ModeAllow, ratelimit.ModeDeny),
		oneOf("opsgate_rate_limit_store_breaker_state",
			"1 for the state of the breaker before the shared store of rate limits (closed, half-open, open).",
			"state", s.breakerState, gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen))
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the shared store of rate limits: %w", err)
		}
	}
	return m, nil
}

// oneOf returns a gauge for each value of a label: 1 for the current value, 0 for the others.
func oneOf[T comparable](name, help, label string, current func() T, values ...T) (gauges []prometheus.Collector) {
	for _, value := range values {
		o := prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: fmt.Sprint(value)}}
		gauges = append(gauges, prometheus.NewGaugeFunc(o, func() float64 {
			if current() == value {
				return 1
			}
			return 0
		}))
	}
	return gauges
}
