package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

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
			Help: "Calls of the shared store of rate limits that failed, by cause.",
		}, []string{"cause"}),
		uploads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_uploads_total",
			Help: "Uploads of a token's local admissions to the shared store of rate limits.",
		}),
		lostRefunds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_lost_refunds_total",
			Help: "Refunds that were lost, as the shared store of rate limits was not in use.",
		}),
		outages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_outages_total",
			Help: "Outages of the shared store of rate limits, including short ones.",
		}),
	}
	for _, cause := range []string{causeTimeout, causeConnection, causeOther} {
		m.failures.WithLabelValues(cause) // 0 before the first failure
	}
	clock := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_rate_limit_store_clock_difference_seconds",
		Help: "Clock of the shared store of rate limits minus that of the gateway at its start.",
	}, func() float64 { return s.clockDifference().Seconds() })
	collectors := append(s.modeGauges(), m.failures, m.uploads, m.lostRefunds, m.outages, clock)
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the shared store of rate limits: %w", err)
		}
	}
	return m, nil
}

// The causes of failures of the shared store, as a label.
const (
	causeTimeout    = "timeout" // no answer in time
	causeConnection = "refused" // no server, or the connection broke
	causeOther      = "other"
)

func causeOf(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return causeTimeout
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return causeConnection
	default:
		return causeOther
	}
}

// modeGauges returns a gauge for each mode: 1 for the current one, 0 for the others.
func (s *Store) modeGauges() (gauges []prometheus.Collector) {
	for _, mode := range []ratelimit.Mode{ratelimit.ModeShared, ratelimit.ModeLocal, ratelimit.ModeAllow,
		ratelimit.ModeDeny} {
		gauges = append(gauges, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "opsgate_rate_limit_store_mode",
			Help:        "1 for the current mode of rate limits; not shared in an outage of the shared store.",
			ConstLabels: prometheus.Labels{"mode": string(mode)},
		}, func() float64 {
			if s.State().Mode == mode {
				return 1
			}
			return 0
		}))
	}
	return gauges
}
