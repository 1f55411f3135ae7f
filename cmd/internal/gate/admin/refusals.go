package admin

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/kit/logging"
)

// refusals logs and counts refused access to the admin listener.
type refusals struct {
	logger *slog.Logger
	lines  *logging.Lines
	mux    *http.ServeMux // maps requests to path templates
	count  *prometheus.CounterVec
}

func newRefusals(logger *slog.Logger, lines *logging.Lines, mux *http.ServeMux) *refusals {
	s := &refusals{
		logger: logger, lines: lines, mux: mux,
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "opsgate_admin_refused_total",
			Help: "Requests to the admin listener that were refused access. host: no loopback name on a loopback listener;" +
				" site: a browser on the page of another site.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{refusedHost, refusedSite, refusedCertificate, refusedToken} {
		s.count.WithLabelValues(reason)
	}
	return s
}

// Refusals returns the counter of refused access.
func (a *Admin) Refusals() prometheus.Collector { return a.refusals.count }

// observe counts and logs a refusal. It logs no value that the client chose: credentials and path may contain a token.
func (s *refusals) observe(r *http.Request, reason string) {
	s.count.WithLabelValues(reason).Inc()
	if !s.lines.Allow(reason) {
		return
	}
	attrs := []any{slog.String("reason", reason), slog.String("remote", r.RemoteAddr)}
	if _, pattern := s.mux.Handler(r); pattern != "" { // "" for an unknown path or method
		method, path, _ := strings.Cut(pattern, " ")
		attrs = append(attrs, slog.String("method", method), slog.String("path", path))
	}
	s.logger.Warn("admin access refused", attrs...)
}
