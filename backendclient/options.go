package backendclient

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"opsgate/backendclient/endpoints"
	"opsgate/internal/certs"
)

// A Target is the address of an internal service, with the TLS files for connections to it.
type Target struct {
	// Address is a gRPC target such as dns:///fleet.internal:9000, or host:port, or a list of
	// addresses: static:///a:9000,b:9000.
	Address string
	// TLS is nil for connections without TLS.
	TLS *certs.ClientFiles
}

// Upstreams are the targets of the five internal services. Each has its own connections, even where
// two have the same address, so that a slow service does not delay another.
type Upstreams struct {
	Fleet, Monitoring, Incident, Audit, Identity Target
}

// The short names of the services, as in errors, logs, metrics and statuses.
const (
	fleet      = "fleet"
	monitoring = "monitoring"
	incident   = "incident"
	audit      = "audit"
	identity   = "identity"
)

func (u Upstreams) of(service string) Target {
	return map[string]Target{
		fleet: u.Fleet, monitoring: u.Monitoring, incident: u.Incident, audit: u.Audit, identity: u.Identity,
	}[service]
}

// Options are the options of [Dial]. Upstreams is required; a zero elsewhere stands for the
// default.
type Options struct {
	Upstreams Upstreams
	// Settings are the initial settings, which [Clients.Apply] replaces; [DefaultSettings] if all
	// are zero.
	Settings
	// Version is the gateway's version, part of the user agent "opsgate/<version>"; "dev" by
	// default.
	Version string
	// Logger logs changes of connections and breakers; discarded by default.
	Logger *slog.Logger
	// Registerer registers the metrics; by default they are not exposed.
	Registerer prometheus.Registerer
	// Exemplar returns the exemplar labels for the duration of a call, or nil; no exemplars by
	// default.
	Exemplar func(ctx context.Context) prometheus.Labels
	// DialOptions are added to the package's own dial options and take precedence. They must not
	// add resolvers.
	DialOptions []grpc.DialOption

	intervals intervals // tests replace them
}

// intervals are how long and how often the package waits.
type intervals struct {
	endpoints.Intervals

	probe        time.Duration // see probeInterval
	probeTimeout time.Duration // see probeTimeout
}

func (o Options) withDefaults() Options {
	o.Settings = cmp.Or(o.Settings, DefaultSettings())
	o.Version = cmp.Or(o.Version, "dev")
	o.intervals = cmp.Or(o.intervals, intervals{endpoints.DefaultIntervals(), probeInterval, probeTimeout})
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	return o
}
