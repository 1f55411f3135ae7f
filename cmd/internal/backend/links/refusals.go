package links

import (
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
)

// Causes of refusals, as in the metric.
const (
	causeRequests    = "requests"
	causeConnections = "connections"
)

// newRefusals returns the counter of refusals.
func newRefusals(registerer prometheus.Registerer) *prometheus.CounterVec {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsbackend_links_refused_total",
		Help: "Refused by the pages that emails link to, because a network has too many, by cause: requests or connections.",
	}, []string{"cause"})
	for _, cause := range []string{causeRequests, causeConnections} {
		refusals.WithLabelValues(cause)
	}
	if registerer != nil {
		registerer.MustRegister(refusals)
	}
	return refusals
}

// refuse counts and logs a refusal.
func (p *Pages) refuse(cause string, network netip.Prefix) {
	p.refusals.WithLabelValues(cause).Inc()
	p.logger.Warn("a network sends too much to the pages of emails",
		slog.String("network", network.String()), slog.String("cause", cause))
}
