package wiring

import (
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/internal/logging"
)

// Maximum log lines of each kind, per second unless an interval follows. Clients can cause the
// first six kinds, in total 90 lines a second. With the reports of suppressed lines, at most one
// per second and kind, the total stays below 100.
const (
	unauthenticatedLines = 30
	rateLimitedLines     = 20
	connectionLines      = 15
	adminConnectionLines = 10
	adminLines           = 10
	cutOffLines          = 5
	failedLines          = 20 // per cause

	// A dependency that fails and recovers in turn logs each change. An outage of all dependencies
	// logs fewer lines than this limit.
	dependencyLines    = 20 // of each text
	dependencyInterval = 5 * time.Minute

	// A file with thousands of mistakes causes a line for each, and a file that is readable only
	// sometimes causes a reload at each change.
	reloadLines    = 100 // of each text
	reloadInterval = time.Minute
)

// logLimits limit the log lines of a process. A process has one instance, so a reload does not
// reset the limits.
type logLimits struct {
	*logging.Limiter

	requests      gateway.LineLimits
	connections   *logging.Lines // errors of public connections, for example failed TLS handshakes
	adminErrors   *logging.Lines // errors of admin connections
	adminRefusals *logging.Lines // refused admin requests

	reloads      *slog.Logger
	dependencies *slog.Logger // of all that logs the state of services, Redis, the trace collector and files
}

func newLogLimits(o Options, registry prometheus.Registerer) (*logLimits, error) {
	limiter, err := logging.NewLimiter(logging.LimiterOptions{Logger: o.Logger, Clock: o.Clock, Registerer: registry,
		Service: "opsgate"})
	if err != nil {
		return nil, err
	}
	dependencies := limiter.LinesPerCause("dependency", dependencyLines, dependencyInterval)
	reloads := limiter.LinesPerCause("configuration", reloadLines, reloadInterval)
	return &logLimits{
		Limiter: limiter,
		requests: gateway.LineLimits{
			Unauthenticated: limiter.Lines("unauthenticated", unauthenticatedLines),
			RateLimited:     limiter.Lines("rate_limited", rateLimitedLines),
			Failed:          limiter.LinesPerCause("failed", failedLines, time.Second),
			CutOff:          limiter.Lines("cut_off", cutOffLines),
		},
		connections:   limiter.Lines("connection", connectionLines),
		adminErrors:   limiter.Lines("admin_connection", adminConnectionLines),
		adminRefusals: limiter.Lines("admin", adminLines),

		reloads:      slog.New(reloads.Handler(o.Logger.Handler())),
		dependencies: slog.New(dependencies.Handler(o.Logger.Handler())),
	}, nil
}

// NewLog returns the log of a configuration with its level, and logs the warnings of the
// configuration.
func NewLog(w io.Writer, loaded config.Loaded) (*logging.Log, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(loaded.Log.Level.Slog())
	log := logging.New(logging.Options{Writer: w, Level: level, Text: loaded.Log.Format == config.FormatText})
	for _, warning := range loaded.Warnings {
		log.Warn("configuration", slog.String("warning", warning.Error()))
	}
	return log, level
}
