package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/timings"
)

type metrics struct {
	decide, peek, refund, reset, merge, ping durations

	reloads   prometheus.Counter
	discarded prometheus.Counter
}

// durations are the durations of the calls of one operation, by outcome.
type durations struct {
	operation string // label, and name of the operation for the script

	ok, timedOut, failed prometheus.Observer

	exemplar func(context.Context) prometheus.Labels // of Options
}

// newMetrics registers the metrics of a store.
func (s *Store) newMetrics(r prometheus.Registerer, exemplar func(context.Context) prometheus.Labels) (*metrics, error) {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "opsgate_rate_limit_redis_call_duration_seconds",
		Help:    "Duration of calls to the Redis of rate limits, by operation and outcome (ok, timeout, error).",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1},
	}, []string{"operation", "outcome"})
	m := &metrics{
		reloads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_redis_script_reloads_total",
			Help: "Calls that sent the script again, as Redis did not have it.",
		}),
		discarded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_rate_limit_store_discarded_accounts_total",
			Help: "Values of tokens' keys in Redis that were not accounts and were replaced.",
		}),
	}
	subscribed := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_rate_limit_redis_refunds_subscribed",
		Help: "1 once a subscription to refunds by other gateways has lasted for 10 s. Without one, cached denials are repeated for at most 1 s.",
	}, func() float64 {
		if s.steady.Load() {
			return 1
		}
		return 0
	})
	for operation, d := range map[string]*durations{
		"decide": &m.decide, "peek": &m.peek, "refund": &m.refund, "reset": &m.reset, "merge": &m.merge, "ping": &m.ping,
	} {
		*d = durations{
			operation: operation,
			ok:        calls.WithLabelValues(operation, "ok"),
			timedOut:  calls.WithLabelValues(operation, "timeout"),
			failed:    calls.WithLabelValues(operation, "error"),
			exemplar:  exemplar,
		}
	}
	for _, c := range []prometheus.Collector{calls, m.reloads, m.discarded, subscribed} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the Redis store: %w", err)
		}
	}
	return m, nil
}

// observe records the duration of a call since its start, in the metric and in the request's sum of time spent in the limiter.
func (d *durations) observe(ctx context.Context, start time.Time, err error) {
	o := d.ok
	switch {
	case err == nil:
	case timedOut(err):
		o = d.timedOut
	default:
		o = d.failed
	}
	took := time.Since(start)
	var labels prometheus.Labels
	if d.exemplar != nil {
		labels = d.exemplar(ctx)
	}
	timings.Observe(o, took, labels)
	timings.FromContext(ctx).Add(timings.Limiter, took)
}

// timedOut reports whether a call failed because there was no answer in time.
func timedOut(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
