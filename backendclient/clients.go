package backendclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"opsgate/backendclient/breaker"
	"opsgate/proto/contract"
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

	options   Options
	upstreams map[string]*upstream // by short name of the service
	settings  atomic.Pointer[settings]
	ctx       context.Context //nolint:containedctx // ends with Close; the parent of the contexts of connections
	stop      context.CancelFunc
	running   sync.WaitGroup // goroutines
}

// Dial returns clients that connect in the background and retry until they succeed, so a gateway
// starts without its services. It returns an error if an address is empty or cannot be parsed, a
// file of TLS cannot be used, the options are invalid or the metrics are already registered. After
// an error no metric stays registered.
func Dial(options Options) (*Clients, error) {
	o := options.withDefaults()
	if err := o.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("backend client options: %w", err)
	}
	c := &Clients{options: o, upstreams: make(map[string]*upstream)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.settings.Store(newSettings(o.Settings))
	metrics := newMetrics(o.Registerer)
	if err := c.connect(metrics); err != nil {
		c.stop()
		metrics.unregister()
		return nil, err
	}
	for _, u := range c.upstreams {
		c.running.Go(func() { u.watch(c.ctx) })
	}
	c.Fleet = fleetv1.NewFleetServiceClient(c.upstreams[fleet])
	c.Monitoring = monitoringv1.NewMonitoringServiceClient(c.upstreams[monitoring])
	c.Incident = incidentv1.NewIncidentServiceClient(c.upstreams[incident])
	c.Audit = auditv1.NewAuditServiceClient(c.upstreams[audit])
	c.Identity = identityv1.NewIdentityServiceClient(c.upstreams[identity])
	return c, nil
}

// connect registers the metrics, and makes the upstreams with their first connections. After an
// error no connection is open.
func (c *Clients) connect(metrics *metrics) error {
	if err := metrics.registerVectors(); err != nil {
		return err
	}
	large := newLargeResponses()
	for _, s := range contract.Services() {
		u := &upstream{
			service: s.Name, methods: make(map[string]*method), settings: &c.settings,
			large: large, metrics: metrics.forService(s.Name), logger: c.options.Logger,
			probeTimeout: c.options.intervals.probeTimeout, probesDue: make(chan struct{}, 1),
		}
		u.outages.Logger = u.logger.With(slog.String("service", u.service))
		u.outages.Failed, u.outages.Recovered = "internal service is unavailable", "internal service is available again"
		u.breakers = breaker.New(breaker.Options{
			Service: s.Name, Settings: c.options.Breaker, Logger: c.options.Logger,
			Report: u.metrics.setBreakerState, Describe: describe,
		})
		if err := metrics.registerInFlight(u); err != nil {
			return err
		}
		c.upstreams[s.Name] = u
	}
	for _, m := range contract.Methods() {
		u := c.upstreams[m.Service()]
		u.addMethod(m, metrics.durations, c.options.Exemplar)
	}
	change, err := c.build(c.options.Upstreams)
	if err != nil {
		return err
	}
	change.Apply()
	if err := metrics.register(newEndpointsCollector(c)); err != nil { // last, because it reads the connections
		return errors.Join(err, c.Close())
	}
	return nil
}

// Apply replaces the settings, which must be valid; see [Settings.Validate]. A call uses the
// settings at its start for all of its attempts, except breaker settings. The limit of calls in
// flight counts earlier calls as well. A change of the breaker settings closes all breakers. Calls
// of Apply must not be concurrent.
func (c *Clients) Apply(s Settings) {
	if before := c.settings.Swap(newSettings(s)); before.Breaker == s.Breaker {
		return
	}
	for _, u := range c.upstreams {
		u.breakers.Reset(s.Breaker, "its settings were changed")
	}
}

// Services returns the status of each service by its short name: "fleet", "identity", ….
func (c *Clients) Services() map[string]ServiceStatus {
	all := make(map[string]ServiceStatus, len(c.upstreams))
	for service, u := range c.upstreams {
		all[service] = u.status()
	}
	return all
}

// Refuses reports whether the breaker of a method, such as "GetServer", would refuse a call of a
// team now because the team's latest call failed.
func (c *Clients) Refuses(service, method, team string) bool {
	if u := c.upstreams[service]; u != nil && u.methods[method] != nil {
		b := u.methods[method].breaker
		return b != nil && b.Refuses(team)
	}
	return false
}

// Close closes the connections and ends the calls on them.
func (c *Clients) Close() error {
	c.stop()
	c.running.Wait()
	var errs []error
	for service, u := range c.upstreams {
		u.breakers.Close()
		if err := u.connection.Load().grpc.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the connection to %s: %w", service, err))
		}
	}
	return errors.Join(errs...)
}
