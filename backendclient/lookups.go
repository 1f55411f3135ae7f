package backendclient

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A FailedLookup is why the name of a service does not resolve. The addresses of the last answer stay in use.
type FailedLookup struct {
	Since time.Time // the first failure after the last answer
	Cause string    // of the last failure, with the name; "no such host" for NXDOMAIN
}

// lookups records the results of the lookups of a name, which are sequential. It logs the first failure and the next success.
type lookups struct {
	service  string
	logger   *slog.Logger
	failures prometheus.Counter
	failing  atomic.Pointer[FailedLookup] // nil unless the last lookup failed
}

func (l *lookups) failed(err error) {
	l.failures.Inc()
	next := FailedLookup{time.Now(), truncate(err.Error(), maxMessage)}
	if before := l.failing.Load(); before != nil {
		next.Since = before.Since
	} else {
		l.logger.Warn("the name of an internal service does not resolve", slog.String("service", l.service), slog.String("error", next.Cause))
	}
	l.failing.Store(&next)
}

func (l *lookups) succeeded() {
	if l.failing.Swap(nil) != nil {
		l.logger.Info("the name of an internal service resolves again", slog.String("service", l.service))
	}
}
