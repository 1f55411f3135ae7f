package backendclient

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/outagelog"
)

// A FailedLookup is why the name of a service does not resolve. The addresses of the last answer
// stay in use.
type FailedLookup struct {
	Since time.Time // the first failure after the last answer
	Cause string    // of the last failure, with the name; "no such host" for NXDOMAIN
}

// lookups records the results of the lookups of a name.
type lookups struct {
	failures prometheus.Counter
	log      outagelog.Log
}

func (l *lookups) init(u *upstream) {
	l.failures = u.metrics.failedLookups
	l.log.Logger = u.logger.With(slog.String("service", u.service))
	l.log.Failed = "the name of an internal service does not resolve"
	l.log.Recovered = "the name of an internal service resolves again"
}

func (l *lookups) failed(err error) {
	l.failures.Inc()
	l.log.Fail(errors.New(truncate(err.Error(), maxMessage)))
}

func (l *lookups) succeeded() { l.log.Succeed() }

// failing returns nil unless the last lookup failed.
func (l *lookups) failing() *FailedLookup {
	since, cause := l.log.Failing()
	if cause == nil {
		return nil
	}
	return &FailedLookup{since, cause.Error()}
}
