package demand

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	recorded              prometheus.Counter
	queueFull, unwritable prometheus.Counter // dropped events
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	recorded := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_demand_recorded_total",
		Help: "Requests, refunds and resets that were written to the record of demand.",
	})
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_demand_dropped_total",
		Help: "Requests, refunds and resets that are missing in the record of demand: they came faster than they could be written" +
			" (queue_full), or could not be written (unwritable).",
	}, []string{"reason"})
	for _, c := range []prometheus.Collector{recorded, dropped} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register a metric of the record of demand: %w", err)
		}
	}
	return &metrics{
		recorded:   recorded,
		queueFull:  dropped.WithLabelValues("queue_full"),
		unwritable: dropped.WithLabelValues("unwritable"),
	}, nil
}
