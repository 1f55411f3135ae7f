package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/timings"
	"opsgate/ratelimit/redisclient"
)

type metrics struct {
	calls     *prometheus.HistogramVec
	reloads   prometheus.Counter
	discarded prometheus.Counter
	exemplar  func(context.Context) prometheus.Labels // of Options
}

// newMetrics registers the metrics of a store.
func (s *Store) newMetrics(
	r prometheus.Registerer, exemplar func(context.Context) prometheus.Labels,
) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "opsgate_rate_limit_redis_call_duration_seconds",
			Help:    "Duration of calls to the Redis of rate limits.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1},
		}, []string{"operation", "outcome"}),
		reloads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_redis_script_reloads_total",
			Help: "Calls that sent the script again, as Redis did not have it.",
		}),
		discarded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_discarded_accounts_total",
			Help: "Values of tokens' keys in Redis that were not accounts and were replaced.",
		}),
		exemplar: exemplar,
	}
	subscribed := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_rate_limit_redis_refunds_subscribed",
		Help: "1 once a subscription to refunds by other gateways has lasted for 10 s.",
	}, func() float64 {
		if s.lasts.Load() {
			return 1
		}
		return 0
	})
	for _, operation := range []string{"decide", "peek", "upload", "refund", "reset", "ping"} {
		for _, outcome := range []string{"ok", "timeout", "error"} {
			m.calls.WithLabelValues(operation, outcome) // 0 before the first call
		}
	}
	for _, c := range []prometheus.Collector{m.calls, m.reloads, m.discarded, subscribed} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the Redis store: %w", err)
		}
	}
	return m, nil
}

// observe records the duration of a call since its start, in the metric and in the request's sum of
// time spent in the limiter.
func (m *metrics) observe(ctx context.Context, operation string, start time.Time, err error) {
	outcome := "ok"
	switch {
	case err == nil:
	case redisclient.TimedOut(err):
		outcome = "timeout"
	default:
		outcome = "error"
	}
	took := time.Since(start)
	var labels prometheus.Labels
	if m.exemplar != nil {
		labels = m.exemplar(ctx)
	}
	timings.Observe(m.calls.WithLabelValues(operation, outcome), took, labels)
	timings.FromContext(ctx).Add(timings.Limiter, took)
}
