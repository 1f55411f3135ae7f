package backendclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"opsgate/backendclient/tlsfiles"
)

// An Upstream is where an internal service is.
type Upstream struct {
	// Address is a gRPC target such as dns:///fleet.internal:9000, or host:port.
	Address string
	// TLS is how connections are kept private; nil for not at all.
	TLS *tlsfiles.Files
}

// Upstreams are the five internal services. Each has connections of its own, also where two have the same address: one
// that is slow or ends its connections does not hold up the other.
type Upstreams struct {
	Fleet, Monitoring, Incident, Audit, Identity Upstream
}

// Options are what [Dial] needs. Upstreams is required; a zero elsewhere stands for the default.
type Options struct {
	Upstreams Upstreams
	// Settings are the bounds to begin with.
	Settings
	// Version is the gateway's, which the services see as user agent "opsgate/<version>"; "dev" by default.
	Version string
	// Logger gets a line when a service is lost or reached again; discarded by default.
	Logger *slog.Logger
	// Registerer gets the metrics; by default they go nowhere.
	Registerer prometheus.Registerer
	// Exemplar returns labels that lead from the duration of a call to where more is known of it, or nil; none by default.
	Exemplar func(ctx context.Context) prometheus.Labels
	// DialOptions come after our own and so override them: a test's dialer, an installation's tracing.
	DialOptions []grpc.DialOption
}

// Settings are the bounds of calls: what may change while the connections stay. A zero stands for the default.
type Settings struct {
	// DeadlineMargin is how much earlier than its caller's deadline a call ends, so that there is time left to answer;
	// 10 ms by default.
	DeadlineMargin time.Duration
	// DefaultTimeout bounds a call whose caller has no deadline; 5 s by default.
	DefaultTimeout time.Duration
	// MaxResponseBytes bounds a response message; 8 MiB by default.
	MaxResponseBytes int
	// MaxInFlight bounds the calls to one service that are under way; 512 by default. Past it calls fail at once with
	// Unavailable and ReasonOverloaded.
	MaxInFlight int
	// Breaker is when a service is left alone. A change begins anew with closed breakers.
	Breaker BreakerSettings
	// Retries is what is tried again.
	Retries RetrySettings
}

// BreakerSettings are when the breaker of a service opens and closes. A zero stands for the default.
type BreakerSettings struct {
	// Window is how far back attempts count; 20 s by default. One that takes longer does not count at all, so it must be longer
	// than the longest deadline.
	Window time.Duration
	// MinRequests is how many attempts it takes to judge; 10 by default.
	MinRequests int
	// FailureRate is the part of the attempts, above 0 to 1, whose failure opens the breaker; 0.5 by default. Nothing but
	// failures for half a second opens it as well.
	FailureRate float64
	// OpenFor is how long no attempt is made, and the most that one which follows may take; 3 s by default.
	OpenFor time.Duration
	// Probes is how many attempts are then made at a time, and must succeed one after the other for the breaker to close; 3
	// by default.
	Probes int
}

// RetrySettings are what is tried again after Unavailable. The zero value stands for the defaults.
type RetrySettings struct {
	// Max is how often a call is tried again; 2 by default, 0 for never.
	Max int
	// Budget is the part of calls, 0 to 1, that may be tried again, beyond ten; 0.1 by default.
	Budget float64
	// Backoff is the wait before the second attempt, give or take a half; it doubles with each. 25 ms by default.
	Backoff time.Duration
}

func (s Settings) withDefaults() Settings {
	s.DeadlineMargin = cmp.Or(s.DeadlineMargin, 10*time.Millisecond)
	s.DefaultTimeout = cmp.Or(s.DefaultTimeout, 5*time.Second)
	s.MaxResponseBytes = cmp.Or(s.MaxResponseBytes, 8<<20)
	s.MaxInFlight = cmp.Or(s.MaxInFlight, 512)
	s.Breaker.Window = cmp.Or(s.Breaker.Window, 20*time.Second)
	s.Breaker.MinRequests = cmp.Or(s.Breaker.MinRequests, 10)
	s.Breaker.FailureRate = cmp.Or(s.Breaker.FailureRate, 0.5)
	s.Breaker.OpenFor = cmp.Or(s.Breaker.OpenFor, 3*time.Second)
	s.Breaker.Probes = cmp.Or(s.Breaker.Probes, 3)
	s.Retries = cmp.Or(s.Retries, RetrySettings{Max: 2, Budget: 0.1, Backoff: 25 * time.Millisecond})
	return s
}

func (s Settings) validate() error {
	switch {
	case s.DeadlineMargin < 0:
		return fmt.Errorf("deadline margin %v is negative", s.DeadlineMargin)
	case s.DefaultTimeout < 0:
		return fmt.Errorf("default timeout %v is negative", s.DefaultTimeout)
	case s.MaxResponseBytes < 0:
		return errors.New("the largest response has a negative size")
	case s.MaxInFlight < 0:
		return fmt.Errorf("%d calls in flight", s.MaxInFlight)
	}
	return cmp.Or(s.Breaker.validate(), s.Retries.validate())
}

func (s BreakerSettings) validate() error {
	switch {
	case s.Window < windowBuckets:
		return fmt.Errorf("breaker window of %v", s.Window)
	case s.MinRequests < 0 || s.Probes < 0:
		return fmt.Errorf("breaker with %d requests and %d probes", s.MinRequests, s.Probes)
	case !(s.FailureRate > 0 && s.FailureRate <= 1):
		return fmt.Errorf("breaker with a failure rate of %v", s.FailureRate)
	case s.OpenFor < 0:
		return fmt.Errorf("breaker open for %v", s.OpenFor)
	}
	return nil
}

func (s RetrySettings) validate() error {
	switch {
	case s.Max < 0 || s.Max > maxRetries:
		return fmt.Errorf("%d retries; there are 0 to %d", s.Max, maxRetries)
	case !(s.Budget >= 0 && s.Budget <= 1):
		return fmt.Errorf("retry budget of %v", s.Budget)
	case s.Max > 0 && s.Backoff <= 0:
		return fmt.Errorf("retry back-off of %v", s.Backoff)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Settings = o.Settings.withDefaults()
	o.Version = cmp.Or(o.Version, "dev")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	return o
}
