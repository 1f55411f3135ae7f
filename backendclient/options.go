package backendclient

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
)

// An Upstream is where an internal service is.
type Upstream struct {
	// Address is a gRPC target such as dns:///fleet.internal:9000, or host:port.
	Address string
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
}

func (s Settings) withDefaults() Settings {
	s.DeadlineMargin = cmp.Or(s.DeadlineMargin, 10*time.Millisecond)
	s.DefaultTimeout = cmp.Or(s.DefaultTimeout, 5*time.Second)
	s.MaxResponseBytes = cmp.Or(s.MaxResponseBytes, 8<<20)
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
