package links

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Causes of refusals, as in the metric.
const (
	causeRequests    = "requests"
	causeConnections = "connections"
)

// logInterval is the shortest time between two log lines about refusals, which any client can cause.
const logInterval = time.Minute

// refusals are counted, and logged from time to time.
type refusals struct {
	total *prometheus.CounterVec

	mu     sync.Mutex
	since  int // the last log line
	logged time.Time
}

func newRefusals(registerer prometheus.Registerer) *refusals {
	r := &refusals{total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsbackend_links_refused_total",
		Help: "Refused by the pages that emails link to, because a network has too many, by cause: requests or connections.",
	}, []string{"cause"})}
	for _, cause := range []string{causeRequests, causeConnections} {
		r.total.WithLabelValues(cause)
	}
	if registerer != nil {
		registerer.MustRegister(r.total)
	}
	return r
}

// refuse counts a refusal, and logs it unless another one was logged a short time ago.
func (p *Pages) refuse(cause string, network netip.Prefix) {
	r, now := p.refused, p.clock()
	r.total.WithLabelValues(cause).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since++
	if now.Sub(r.logged) < logInterval {
		return
	}
	p.logger.Warn("a network sends too much to the pages of emails",
		slog.String("network", network.String()), slog.String("cause", cause), slog.Int("refused", r.since))
	r.since, r.logged = 0, now
}
