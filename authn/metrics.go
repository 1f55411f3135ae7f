package authn

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics holds pre-resolved counters, so that requests do not look up labels.
type metrics struct {
	hits, misses, staleHits                  prometheus.Counter
	resolved, notFound, revoked, unavailable prometheus.Counter
	invalid, shed                            prometheus.Counter
	revocations                              prometheus.Counter
	streamConnected                          prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer, a *Authenticator, maxEntries int) (*metrics, error) {
	uses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_authn_cache_requests_total",
		Help: "Requests with a well-formed token. miss: decided by a lookup; stale: the identity service was " +
			"unavailable.",
	}, []string{"result"})
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_authn_lookups_total",
		Help: "Lookups in the identity service. invalid: the response breaks the contract; shed: not made, too many " +
			"waited.",
	}, []string{"outcome"})
	m := &metrics{
		hits:        uses.WithLabelValues("hit"),
		misses:      uses.WithLabelValues("miss"),
		staleHits:   uses.WithLabelValues("stale"),
		resolved:    lookups.WithLabelValues("resolved"),
		notFound:    lookups.WithLabelValues("unknown"),
		revoked:     lookups.WithLabelValues("revoked"),
		unavailable: lookups.WithLabelValues("unavailable"),
		invalid:     lookups.WithLabelValues("invalid"),
		shed:        lookups.WithLabelValues("shed"),
		revocations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_authn_revocations_total",
			Help: "Revocations received from the identity service.",
		}),
		streamConnected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "opsgate_authn_revocation_stream_connected",
			Help: "1 while the revocation stream is connected; at 0, revocations take effect late.",
		}),
	}
	for _, c := range append(stateGauges(a, maxEntries), uses, lookups, m.revocations, m.streamConnected) {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// stateGauges returns the gauges of the cache and of the lookups.
func stateGauges(a *Authenticator, maxEntries int) []prometheus.Collector {
	limit := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "opsgate_authn_cache_entries_limit",
		Help: "Maximum number of cached tokens: authn.max_entries, and an eighth as many refused ones.",
	})
	limit.Set(float64(maxEntries + refusedCapacity(maxEntries)))
	return []prometheus.Collector{
		limit,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_authn_cache_entries",
			Help: "Cached tokens, including refused ones.",
		}, func() float64 { return float64(a.entries.size()) }),
		newInFlightGauge("known", &a.knownInFlight), newInFlightGauge("unknown", &a.unknownQueue.inFlight),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_authn_lookups_queued",
			Help: "Queued lookups of unknown tokens, beyond authn.max_lookups.",
		}, func() float64 { return float64(a.unknownQueue.queued.Load()) }),
	}
}

func newInFlightGauge(token string, lookups *atomic.Int64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "opsgate_authn_lookups_in_flight",
		Help:        "Lookups in flight. known: of tokens that this gateway has confirmed or that are revoked.",
		ConstLabels: prometheus.Labels{"token": token},
	}, func() float64 { return float64(lookups.Load()) })
}
