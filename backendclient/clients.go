package backendclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// Clients are the typed clients of the internal services. They are safe for concurrent use.
type Clients struct {
	Fleet      fleetv1.FleetServiceClient
	Monitoring monitoringv1.MonitoringServiceClient
	Incident   incidentv1.IncidentServiceClient
	Audit      auditv1.AuditServiceClient
	Identity   identityv1.IdentityServiceClient

	*connections
}

// connections are what all Clients share that are made of one another.
type connections struct {
	byService   map[string]*grpc.ClientConn // by the service's short name
	guards      map[string]*guard           // likewise
	lost        map[string]*lost            // likewise
	generations atomic.Uint64               // of settings
	stop        context.CancelFunc
	watchers    sync.WaitGroup
}

// Dial makes the clients. Connecting goes on in the background, for as long as it takes: a gateway starts without its
// services, and says so on its readiness page. It fails when an address cannot be parsed, the options make no sense or the
// metrics are registered already.
func Dial(options Options) (*Clients, error) {
	o := options.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("backend client options: %w", err)
	}
	first := &generation{Settings: o.Settings}
	guards, err := newGuards(o, first)
	if err != nil {
		return nil, fmt.Errorf("backend client metrics: %w", err)
	}
	calls, err := newCalls(o, guards)
	if err != nil {
		return nil, fmt.Errorf("backend client metrics: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &connections{
		byService: make(map[string]*grpc.ClientConn, len(services())), guards: guards, lost: make(map[string]*lost), stop: stop,
	}
	for _, s := range services() {
		if err := c.dial(o, s, calls); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for service, connection := range c.byService {
		l := new(lost)
		l.note(connection.GetState(), time.Now()) // here, as the watcher may begin later than somebody asks
		c.lost[service] = l
		c.watchers.Go(func() { l.watch(ctx, o.Logger, service, connection) })
		connection.Connect() // else the first request would pay for it, and readiness would know nothing
	}
	return c.clients(first), nil
}

// With returns clients whose calls have other bounds and go over the same connections, which are closed with any of them. It
// fails when the settings make no sense.
func (c *Clients) With(settings Settings) (*Clients, error) {
	s := settings.withDefaults()
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("backend client settings: %w", err)
	}
	return c.clients(&generation{Settings: s, number: c.generations.Add(1)}), nil
}

func newGuards(o Options, first *generation) (map[string]*guard, error) {
	metrics, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	guards := make(map[string]*guard, len(services()))
	for _, s := range services() {
		g := newGuard(s.name, first, metrics.of(s.name), o.Logger)
		if err := metrics.watch(g); err != nil {
			return nil, err
		}
		guards[s.name] = g
	}
	return guards, nil
}

func (c *connections) clients(under *generation) *Clients {
	options := under.callOptions()
	to := func(service string) connectionUnder { return connectionUnder{c.byService[service], options} }
	return &Clients{
		Fleet:       fleetv1.NewFleetServiceClient(to(fleet)),
		Monitoring:  monitoringv1.NewMonitoringServiceClient(to(monitoring)),
		Incident:    incidentv1.NewIncidentServiceClient(to(incident)),
		Audit:       auditv1.NewAuditServiceClient(to(audit)),
		Identity:    identityv1.NewIdentityServiceClient(to(identity)),
		connections: c,
	}
}

func (c *connections) dial(o Options, s service, calls calls) error {
	address := s.upstream(o.Upstreams).Address
	if address == "" {
		return fmt.Errorf("dial %s: no address", s.name)
	}
	options, err := dialOptions(o, s, calls)
	if err != nil {
		return fmt.Errorf("dial %s: %w", s.name, err)
	}
	connection, err := grpc.NewClient(address, options...)
	if err != nil {
		return fmt.Errorf("dial %s at %q: %w", s.name, address, err)
	}
	c.byService[s.name] = connection
	return nil
}

// States tells how the connections stand, by the service's short name ("fleet", "identity", …). A service is usable when
// it is [connectivity.Ready].
func (c *connections) States() map[string]connectivity.State {
	states := make(map[string]connectivity.State, len(c.byService))
	for service, connection := range c.byService {
		states[service] = connection.GetState()
	}
	return states
}

// UnreachableSince tells since when services cannot be reached, by their short names; those that can are left out.
func (c *connections) UnreachableSince() map[string]time.Time {
	since := make(map[string]time.Time)
	for service, l := range c.lost {
		if at := l.since.Load(); at != nil {
			since[service] = *at
		}
	}
	return since
}

// Breakers tells how the breakers stand, by the service's short name. Attempts to the service are made, but for those that an
// open or half-open one refuses.
func (c *connections) Breakers() map[string]BreakerStatus {
	states := make(map[string]BreakerStatus, len(c.guards))
	for service, g := range c.guards {
		states[service] = *g.current.Load().breaker.state.Load()
	}
	return states
}

// Close ends the connections and the calls on them.
func (c *connections) Close() error {
	c.stop()
	c.watchers.Wait()
	var errs []error
	for service, connection := range c.byService {
		if err := connection.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the connection to %s: %w", service, err))
		}
	}
	return errors.Join(errs...)
}

// A lost remembers since when a service cannot be reached.
type lost struct{ since atomic.Pointer[time.Time] }

// watch notes that the service is lost and that it is reached again, and logs that without the steps between.
func (l *lost) watch(ctx context.Context, logger *slog.Logger, service string, connection *grpc.ClientConn) {
	logged := connectivity.Ready // a service that is there from the start needs no line
	for state := connection.GetState(); ; state = connection.GetState() {
		l.note(state, time.Now())
		switch {
		case state == logged:
		case state == connectivity.Ready:
			logged = state
			logger.InfoContext(ctx, "internal service is back", slog.String("service", service))
		case state == connectivity.TransientFailure:
			logged = state
			logger.WarnContext(ctx, "internal service is away", slog.String("service", service))
		}
		if !connection.WaitForStateChange(ctx, state) {
			return
		}
	}
}

func (l *lost) note(state connectivity.State, now time.Time) {
	switch {
	case state == connectivity.Ready:
		l.since.Store(nil)
	case l.since.Load() == nil:
		l.since.Store(&now)
	}
}
