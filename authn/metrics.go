package authn

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics holds pre-resolved counters, so that requests do not look up labels.
type metrics struct {
	hits, misses, stales                    prometheus.Counter
	resolved, unknown, revoked, unavailable prometheus.Counter
	invalid, shed                           prometheus.Counter
	revocations                             prometheus.Counter
	streamConnected                         prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer, a *Authenticator, maxEntries int) (*metrics, error) {
	uses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_authn_cache_requests_total",
		Help: "Well-formed tokens by what the cache made of them: hit, miss (a look-up answered it), or stale (the identity service could not).",
	}, []string{"result"})
	lookUps := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_authn_lookups_total",
		Help: "Look-ups in the identity service by outcome: resolved, unknown, revoked, unavailable, " +
			"invalid (the answer breaks the contract), or shed (not made: too many at once).",
	}, []string{"outcome"})
	m := &metrics{
		hits:        uses.WithLabelValues("hit"),
		misses:      uses.WithLabelValues("miss"),
		stales:      uses.WithLabelValues("stale"),
		resolved:    lookUps.WithLabelValues("resolved"),
		unknown:     lookUps.WithLabelValues("unknown"),
		revoked:     lookUps.WithLabelValues("revoked"),
		unavailable: lookUps.WithLabelValues("unavailable"),
		invalid:     lookUps.WithLabelValues("invalid"),
		shed:        lookUps.WithLabelValues("shed"),
		revocations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "opsgate_authn_revocations_total",
			Help: "Revocations received from the identity service.",
		}),
		streamConnected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "opsgate_authn_revocation_stream_connected",
			Help: "1 while the revocation stream is up, 0 while it is not.",
		}),
	}
	size := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsgate_authn_cache_entries",
		Help: "Tokens remembered, refused ones included.",
	}, func() float64 { return float64(a.entries.size()) })
	limit := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "opsgate_authn_cache_entries_limit",
		Help: "How many tokens can be remembered, refused ones included.",
	})
	limit.Set(float64(maxEntries + refusedCapacity(maxEntries)))
	for _, c := range []prometheus.Collector{
		uses, lookUps, m.revocations, m.streamConnected, size, limit,
		newInFlight("known", &a.knownInFlight), newInFlight("unknown", &a.unknown.inFlight),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_authn_lookups_queued",
			Help: "Look-ups of unknown tokens that wait for their turn.",
		}, func() float64 { return float64(a.unknown.queued.Load()) }),
	} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func newInFlight(token string, lookUps *atomic.Int64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "opsgate_authn_lookups_in_flight",
		Help:        "Look-ups under way, of tokens that were confirmed here (known) and of others (unknown).",
		ConstLabels: prometheus.Labels{"token": token},
	}, func() float64 { return float64(lookUps.Load()) })
}
