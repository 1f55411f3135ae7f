package backendclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// Clients holds the typed clients of the internal services. They are safe for concurrent use.
type Clients struct {
	Fleet      fleetv1.FleetServiceClient
	Monitoring monitoringv1.MonitoringServiceClient
	Incident   incidentv1.IncidentServiceClient
	Audit      auditv1.AuditServiceClient
	Identity   identityv1.IdentityServiceClient

	upstreams map[string]*upstream // by short name of the service
	settings  atomic.Pointer[settings]
	stop      context.CancelFunc
	watchers  sync.WaitGroup
}

// Dial returns clients that connect in the background and retry until they succeed, so a gateway starts without its services. It returns
// an error if an address cannot be parsed, the options are invalid or the metrics are already registered.
func Dial(options Options) (*Clients, error) {
	o := options.withDefaults()
	if err := o.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("backend client options: %w", err)
	}
	metrics, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("backend client metrics: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Clients{upstreams: make(map[string]*upstream, len(services())), stop: stop}
	c.settings.Store(newSettings(o.Settings))
	for _, s := range services() {
		if err := c.dial(o, s, metrics); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for _, u := range c.upstreams {
		u.downtime.update(u.connection.GetState(), time.Now()) // before Dial returns; the goroutine may start later
		c.watchers.Go(func() { u.watch(ctx) })
		u.connection.Connect() // gRPC would wait for the first call
	}
	c.Fleet = fleetv1.NewFleetServiceClient(c.upstreams[fleet].connection)
	c.Monitoring = monitoringv1.NewMonitoringServiceClient(c.upstreams[monitoring].connection)
	c.Incident = incidentv1.NewIncidentServiceClient(c.upstreams[incident].connection)
	c.Audit = auditv1.NewAuditServiceClient(c.upstreams[audit].connection)
	c.Identity = identityv1.NewIdentityServiceClient(c.upstreams[identity].connection)
	return c, nil
}

// dial adds the upstream of a service.
func (c *Clients) dial(o Options, s service, metrics *metrics) error {
	address := s.upstream(o.Upstreams).Address
	if address == "" {
		return fmt.Errorf("dial %s: no address", s.name)
	}
	u := &upstream{
		service: s.name, methods: newMethods(s, metrics.durations, o.Exemplar), settings: &c.settings,
		metrics: metrics.forService(s.name), logger: o.Logger,
	}
	u.setBreaker(o.Breaker)
	if err := metrics.registerInFlight(u); err != nil {
		return fmt.Errorf("backend client metrics: %w", err)
	}
	options, err := dialOptions(o, s, u)
	if err != nil {
		return fmt.Errorf("dial %s: %w", s.name, err)
	}
	if u.connection, err = grpc.NewClient(address, options...); err != nil {
		return fmt.Errorf("dial %s at %q: %w", s.name, address, err)
	}
	c.upstreams[s.name] = u
	return nil
}

// Apply replaces the settings, which must be valid; see [Settings.Validate]. A call uses the settings at its start for all of its
// attempts. The limit of calls in flight counts earlier calls as well. A change of the breaker settings closes all breakers. Calls of
// Apply must not be concurrent.
func (c *Clients) Apply(s Settings) {
	if before := c.settings.Swap(newSettings(s)); before.Breaker == s.Breaker {
		return
	}
	for _, u := range c.upstreams {
		u.setBreaker(s.Breaker)
	}
}

// States returns the states of the connections by the service's short name ("fleet", "identity", …). A service is available if its
// state is [connectivity.Ready].
func (c *Clients) States() map[string]connectivity.State {
	states := make(map[string]connectivity.State, len(c.upstreams))
	for service, u := range c.upstreams {
		states[service] = u.connection.GetState()
	}
	return states
}

// UnreachableSince returns the start of the downtime of each service that is not available, by its short name.
func (c *Clients) UnreachableSince() map[string]time.Time {
	since := make(map[string]time.Time)
	for service, u := range c.upstreams {
		if at := u.downtime.since.Load(); at != nil {
			since[service] = *at
		}
	}
	return since
}

// Breakers returns the status of the breakers by the service's short name.
func (c *Clients) Breakers() map[string]BreakerStatus {
	states := make(map[string]BreakerStatus, len(c.upstreams))
	for service, u := range c.upstreams {
		states[service] = *u.breaker.Load().status.Load()
	}
	return states
}

// Close closes the connections and ends the calls on them.
func (c *Clients) Close() error {
	c.stop()
	c.watchers.Wait()
	var errs []error
	for service, u := range c.upstreams {
		if err := u.connection.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the connection to %s: %w", service, err))
		}
	}
	return errors.Join(errs...)
}
