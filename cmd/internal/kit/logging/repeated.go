package logging

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// repeatedLines is the maximum number of lines with the same text in any minute.
const repeatedLines = 20

// NewRepeated returns a logger for the backend, which bounds the lines of each text: clients, receivers of notifications and a database
// that fails can cause a line for each call, attempt or tick. Texts must be constants. The Limiter reports the suppressed lines while
// it runs.
func NewRepeated(out slog.Handler, clock func() time.Time, registry prometheus.Registerer) (*slog.Logger, *Limiter, error) {
	limiter, err := NewLimiter(LimiterOptions{Logger: slog.New(out), Clock: clock, Registerer: registry, Service: "opsbackend"})
	if err != nil {
		return nil, nil, err
	}
	return slog.New(limiter.LinesPerCause("repeated", repeatedLines, time.Minute).Handler(out)), limiter, nil
}

// Recurring returns a logger that writes each text at most once in any minute: for failures that recur with each call or tick. Texts must
// be constants. Suppressed lines are not counted.
func Recurring(out *slog.Logger, clock func() time.Time) *slog.Logger {
	start := clock()
	lines := &Lines{most: 1, per: time.Minute, elapsed: func() time.Duration { return clock().Sub(start) }}
	return slog.New(lines.Handler(out.Handler()))
}
