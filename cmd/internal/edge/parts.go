package edge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/admin/console"
	"opsgate/cmd/internal/config"
	"opsgate/cmd/internal/tracing"
	"opsgate/gateway"
	"opsgate/ratelimit/demand"
	"opsgate/ratelimit/heavyhitters"
)

// parts are what a gateway consists of: what lives as long as the process does, and the snapshot that is in force.
type parts struct {
	logger           *slog.Logger
	clock            func() time.Time
	registry         *prometheus.Registry
	clients          *backendclient.Clients
	authenticator    *authn.Authenticator
	limiter          limiter
	shared           *sharedLimits    // nil where this process counts alone
	demand           *demand.Recorder // nil where demand is not recorded
	busiest          *heavyhitters.Sketch
	denied           *deniedTokens
	decisions        observers
	traces           *tracing.Provider // nil where none are recorded
	metrics          *gateway.Metrics
	refunds          *gateway.Refunds
	retrySlots       *gateway.RetrySlots
	capacity         *gateway.Capacity
	connections      *connections
	adminConnections *connections
	overload         *overload
	lines            *logLimits
	reloads          *configMetrics
	admin            *admin.Admin
	console          *console.Console

	// current is all that a request needs to know, in one pointer: no request sees a part of a configuration.
	current    atomic.Pointer[snapshot]
	lastReload atomic.Pointer[admin.Reload]
}

// build makes the parts, each from those before it.
func build(o Options) (_ *parts, err error) {
	registry := admin.NewRegistry(o.Build)
	p := &parts{logger: o.Logger, clock: o.Clock, registry: registry, busiest: heavyhitters.New()}
	p.retrySlots = gateway.NewRetrySlots(p.gateways)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.denied, err = newDeniedTokens(registry); err != nil {
		return nil, err
	}
	p.decisions = observers{crowd{p.busiest}, p.denied}
	if p.lines, err = newLogLimits(o, registry); err != nil {
		return nil, err
	}
	if p.traces, err = newTracing(o, registry); err != nil {
		return nil, err
	}
	if err := p.buildLimiter(o, registry); err != nil {
		return nil, err
	}
	if p.clients, err = dial(o, registry, p.traces); err != nil {
		return nil, err
	}
	if p.authenticator, err = newAuthenticator(o, p.clients, registry); err != nil {
		return nil, err
	}
	if p.metrics, err = gateway.NewMetrics(registry); err != nil {
		return nil, err
	}
	p.refunds = gateway.NewRefunds(gateway.RefundsOptions{
		Limiter: p.limiter, Metrics: p.metrics, Logger: o.Logger, Lines: p.lines.requests.Failed,
	})
	if err := p.buildBounds(o.Loaded.HTTP); err != nil {
		return nil, err
	}
	if p.reloads, err = newConfigMetrics(registry); err != nil {
		return nil, err
	}
	first, err := p.snapshot(o.Loaded, o.Clock())
	if err != nil {
		return nil, err
	}
	p.current.Store(first)
	p.reloads.setActive(first.version, first.since)
	if err := p.buildAdmin(o); err != nil {
		return nil, err
	}
	return p, nil
}

// buildAdmin makes what operators ask, of all that there is by then.
func (p *parts) buildAdmin(o Options) error {
	inspector := &inspector{parts: p, clock: o.Clock}
	p.console = newConsole(o, inspector, p.registry)
	p.admin = admin.New(admin.Options{
		Metrics:      p.registry,
		Dependencies: p.dependencies,
		Inspector:    inspector,
		Console:      p.console,
		Access:       adminAccess(o.Loaded.Admin),
		Hold:         holdConnection,
		LiveTokens:   liveTokens(o.Loaded.Config),
		Logger:       o.Logger,
		RefusalLines: p.lines.admin,
	})
	return errors.Join(p.registry.Register(p.admin.Readiness()), p.registry.Register(p.admin.Refusals()))
}

// buildBounds makes what bounds all clients together, over all configurations.
func (p *parts) buildBounds(c config.HTTP) (err error) {
	if p.capacity, err = gateway.NewCapacity(c.MaxInFlight, p.registry); err != nil {
		return err
	}
	if p.connections, err = newConnections(c.MaxConnections, "opsgate_http", p.registry); err != nil {
		return err
	}
	if p.adminConnections, err = newConnections(adminMaxConnections, "opsgate_admin", p.registry); err != nil {
		return err
	}
	p.overload = newOverload(p.logger, p.clock, p.capacity, p.connections)
	return nil
}

// configureBounds has them go by what can change while running.
func (p *parts) configureBounds(c config.HTTP) {
	p.capacity.SetLimit(c.MaxInFlight)
	p.connections.setLimit(c.MaxConnections)
}

func (p *parts) close() error {
	err := p.demand.Close()
	if p.clients != nil {
		err = errors.Join(err, p.clients.Close())
	}
	if p.shared != nil {
		err = errors.Join(err, p.shared.close())
	}
	p.traces.Close() // last: what was done until now is in them
	return err
}

// ServeHTTP answers one request of the public API, under the configuration that is in force when it comes.
func (p *parts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.current.Load().gateway.ServeHTTP(w, r)
}

// background is what goes on beside the requests; each of it ends with its context. Refunds are not in it: they end before the rest.
func (p *parts) background() []func(context.Context) error {
	all := []func(context.Context) error{
		p.authenticator.Run, p.limiter.Run, p.busiest.Run, p.denied.Run, p.console.Run, p.overload.run, p.lines.Run,
	}
	if p.demand != nil {
		all = append(all, p.demand.Run)
	}
	return all
}

func dial(o Options, registry prometheus.Registerer, traces *tracing.Provider) (*backendclient.Clients, error) {
	u := o.Loaded.Upstreams
	return backendclient.Dial(backendclient.Options{
		Upstreams: backendclient.Upstreams{
			Fleet:      upstream(u.Fleet),
			Monitoring: upstream(u.Monitoring),
			Incident:   upstream(u.Incident),
			Audit:      upstream(u.Audit),
			Identity:   upstream(u.Identity),
		},
		Settings:    callSettings(o.Loaded.Config),
		Version:     o.Build.Version,
		Logger:      o.Logger,
		Registerer:  registry,
		DialOptions: traces.DialOptions(),
		Exemplar:    traces.Exemplar(),
	})
}

func upstream(c config.Upstream) backendclient.Upstream {
	u := backendclient.Upstream{Address: c.Address}
	if c.TLS.Enabled {
		files := tlsFiles(c.TLS)
		u.TLS = &files
	}
	return u
}

func newAuthenticator(o Options, clients *backendclient.Clients, registry prometheus.Registerer) (*authn.Authenticator, error) {
	return authn.New(authn.Options{
		Format:     authn.TokenFormat{Prefix: o.Loaded.TokenPrefix},
		Identity:   clients.Identity,
		Settings:   tokenSettings(o.Loaded.Config),
		MaxEntries: o.Loaded.Authn.MaxEntries,
		Logger:     o.Logger,
		Registerer: registry,
	})
}
