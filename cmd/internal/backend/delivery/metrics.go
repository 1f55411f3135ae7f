package delivery

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
)

// scrapeTimeout bounds the queries of one scrape.
const scrapeTimeout = 5 * time.Second

// newAttempts returns the counter of attempts, and registers it and the collector of the deliveries
// in the store.
func newAttempts(data *store.Store, options Options) *prometheus.CounterVec {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsbackend_deliveries_total",
		Help: "Attempts to deliver a message. removed: the receiver is gone.",
	}, []string{"channel", "outcome"})
	for channel := range options.Senders {
		for _, outcome := range []string{delivered, failed, dead, removed} {
			attempts.WithLabelValues(channel, outcome)
		}
	}
	if options.Registerer != nil {
		options.Registerer.MustRegister(attempts, newQueueCollector(data, options.Clock))
	}
	return attempts
}

// A queueCollector counts the deliveries in the store at each scrape: other processes change them
// too.
type queueCollector struct {
	store                 *store.Store
	clock                 func() time.Time
	waiting, dead, oldest *prometheus.Desc
}

func newQueueCollector(data *store.Store, clock func() time.Time) *queueCollector {
	return &queueCollector{
		store: data, clock: clock,
		waiting: prometheus.NewDesc("opsbackend_deliveries_waiting", "Deliveries that wait for an attempt.",
			[]string{"channel"}, nil),
		dead: prometheus.NewDesc("opsbackend_dead_letters", "Deliveries whose attempts have ended without success.",
			[]string{"channel"}, nil),
		oldest: prometheus.NewDesc("opsbackend_delivery_oldest_waiting_seconds",
			"Age of the oldest delivery that waits; 0 if none does.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *queueCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- c.waiting
	descriptions <- c.dead
	descriptions <- c.oldest
}

// Collect implements prometheus.Collector.
func (c *queueCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	waiting, dead := map[string]int64{Email: 0, Webhook: 0}, map[string]int64{Email: 0, Webhook: 0}
	now := c.clock().UnixNano()
	oldest := now
	err := c.store.Read(ctx, func(q *query.Queries) error {
		rows, err := q.CountWaitingDeliveriesAnyTeam(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			waiting[row.Channel] = row.Number
			oldest = min(oldest, row.Oldest)
		}
		letters, err := q.CountDeadLettersAnyTeam(ctx)
		for _, row := range letters {
			dead[row.Channel] = row.Number
		}
		return err
	})
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(c.waiting, err)
		return
	}
	for channel := range waiting {
		metrics <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(waiting[channel]), channel)
		metrics <- prometheus.MustNewConstMetric(c.dead, prometheus.GaugeValue, float64(dead[channel]), channel)
	}
	age := time.Duration(now - oldest).Seconds()
	metrics <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age)
}
