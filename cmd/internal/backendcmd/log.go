package backendcmd

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/logging"
)

// repeatedLines is the maximum number of lines with the same text in any minute. Clients, receivers of notifications and a database that
// fails can cause a line for each call, attempt or second.
const repeatedLines = 20

// newLog returns a logger that bounds the lines of each text, and the limiter that reports the suppressed ones while it runs.
func newLog(out slog.Handler, clock func() time.Time, registry prometheus.Registerer) (*slog.Logger, *logging.Limiter, error) {
	limiter, err := logging.NewLimiter(logging.LimiterOptions{
		Logger: slog.New(out), Clock: clock, Registerer: registry, Service: "opsbackend",
	})
	if err != nil {
		return nil, nil, err
	}
	return slog.New(limiter.LinesPerCause("repeated", repeatedLines, time.Minute).Handler(out)), limiter, nil
}
