package edge

import (
	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/logging"
	"opsgate/gateway"
)

// How many lines a second are logged of each kind that clients or an outage can cause in any number. All that clients can cause are 85
// a second, so that with the reports of suppressed ones, one a second for each kind, there are fewer than 100.
const (
	unauthenticatedLines = 30
	rateLimitedLines     = 20
	connectionLines      = 15
	adminConnectionLines = 10
	adminLines           = 10
	failedLines          = 20 // of each cause
)

// logLimits bound the log lines of a process. They outlive configurations: a reload admits no more lines.
type logLimits struct {
	*logging.Limiter

	requests    gateway.LineLimits
	connections *logging.Lines // errors of public connections, such as failed TLS handshakes
	adminErrors *logging.Lines // the same of the admin listener
	admin       *logging.Lines // refused access to the admin listener
}

func newLogLimits(o Options, registry prometheus.Registerer) (*logLimits, error) {
	limiter, err := logging.NewLimiter(logging.LimiterOptions{Logger: o.Logger, Clock: o.Clock, Registerer: registry})
	if err != nil {
		return nil, err
	}
	return &logLimits{
		Limiter: limiter,
		requests: gateway.LineLimits{
			Unauthenticated: limiter.Lines("unauthenticated", unauthenticatedLines),
			RateLimited:     limiter.Lines("rate_limited", rateLimitedLines),
			Failed:          limiter.LinesPerCause("failed", failedLines),
		},
		connections: limiter.Lines("connection", connectionLines),
		adminErrors: limiter.Lines("admin_connection", adminConnectionLines),
		admin:       limiter.Lines("admin", adminLines),
	}, nil
}
