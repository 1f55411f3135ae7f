package wiring

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
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/httpserver"
	"opsgate/cmd/internal/gate/sizing"
	"opsgate/cmd/internal/kit/tracing"
	"opsgate/gateway"
	"opsgate/ratelimit/heavyhitters"
)

// parts are the parts of a gateway: those that live as long as the process, and the active snapshot.
type parts struct {
	logger        *slog.Logger
	clock         func() time.Time
	registry      *prometheus.Registry
	clients       *backendclient.Clients
	authenticator *authn.Authenticator
	limiter       *limiter
	busiest       *heavyhitters.Sketch
	denied        *deniedTokens
	decisions     observers
	traces        *tracing.Provider // nil if traces are disabled
	metrics       *gateway.Metrics
	refunds       *gateway.Refunds
	retrySlots    *gateway.RetrySlots
	capacity      *gateway.Capacity
	public        *httpserver.Server
	adminServer   *httpserver.Server
	overload      *overload
	logLimits     *logLimits
	reloads       *configMetrics
	admin         *admin.Admin
	console       *console.Console
	fleet         *fleet

	// current is the active snapshot. A request loads it once, so it never sees parts of two configurations.
	current    atomic.Pointer[snapshot]
	lastReload atomic.Pointer[admin.Reload]
}

// build creates the parts. If one fails, it closes the others.
func build(ctx context.Context, o Options) (_ *parts, err error) {
	registry := admin.NewRegistry(o.Build)
	p := &parts{logger: o.Logger, clock: o.Clock, registry: registry, busiest: heavyhitters.New()}
	p.fleet = newFleet(o, p)
	defer func() {
		if err != nil {
			for _, server := range []*httpserver.Server{p.public, p.adminServer} {
				if server != nil {
					err = errors.Join(err, server.Close())
				}
			}
			err = errors.Join(err, p.close())
		}
	}()
	if p.denied, err = newDeniedTokens(registry); err != nil {
		return nil, err
	}
	p.decisions = observers{busyTokens{p.busiest}, p.denied}
	if p.logLimits, err = newLogLimits(o, registry); err != nil {
		return nil, err
	}
	if p.public, err = listenPublic(ctx, o, p.logLimits, registry); err != nil {
		return nil, err
	}
	if p.adminServer, err = listenAdmin(ctx, o, p.logLimits, registry); err != nil {
		return nil, err
	}
	p.fleet.bound(p.adminServer.Addr())
	dependencies := o // with their bounded log
	dependencies.Logger = p.logLimits.dependencies
	if p.traces, err = NewTracing(dependencies, "", registry); err != nil {
		return nil, err
	}
	if p.limiter, err = newLimiter(dependencies, registry, p.traces); err != nil {
		return nil, err
	}
	if p.limiter.demand != nil {
		p.decisions = append(p.decisions, demandObserver{p.limiter.demand})
	}
	p.retrySlots = gateway.NewRetrySlots(p.limiter.gateways)
	if p.clients, err = dial(dependencies, registry, p.traces); err != nil {
		return nil, err
	}
	if p.authenticator, err = newAuthenticator(dependencies, p.clients, registry); err != nil {
		return nil, err
	}
	if p.metrics, err = gateway.NewMetrics(registry); err != nil {
		return nil, err
	}
	p.refunds = gateway.NewRefunds(gateway.RefundsOptions{
		Limiter: p.limiter, Metrics: p.metrics, Logger: o.Logger, Lines: p.logLimits.requests.Failed,
	})
	if err := p.buildLimits(o.Loaded); err != nil {
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

// buildAdmin creates the admin pages. It needs all other parts.
func (p *parts) buildAdmin(o Options) error {
	inspector := &inspector{parts: p, clock: o.Clock}
	p.console = newConsole(o, inspector, console.NewSampler(p.registry, o.Clock))
	p.admin = admin.New(admin.Options{
		Metrics:      p.registry,
		Dependencies: p.dependencies,
		Inspector:    inspector,
		Console:      p.console,
		Access:       adminAccess(o.Loaded.Admin),
		Hold:         httpserver.Hold,
		TokenPrefix:  tokenPrefix(o.Loaded.Config),
		Logger:       o.Logger,
		RefusalLines: p.logLimits.admin,
	})
	return errors.Join(p.registry.Register(p.admin.Readiness()), p.registry.Register(p.admin.Refusals()))
}

// buildLimits creates the limit of requests in flight, which a reload does not reset.
func (p *parts) buildLimits(c config.Loaded) (err error) {
	if p.capacity, err = gateway.NewCapacity(c.HTTP.MaxInFlight, sizing.MaxUnwritten(c.MemoryLimit), p.registry); err != nil {
		return err
	}
	p.overload = newOverload(p.logger, p.clock, p.capacity, p.public)
	return nil
}

// configure applies the settings of parts that live as long as the process. The caller has validated them by building a snapshot.
func (p *parts) configure(c config.Loaded) {
	p.clients.Apply(callSettings(c.Config))
	p.authenticator.Apply(tokenSettings(c.Config))
	p.capacity.SetLimit(c.HTTP.MaxInFlight)
	p.public.SetMaxConnections(c.MaxConnections())
	p.setAdminTokens(c.Admin)
	if p.limiter.shared != nil {
		p.limiter.shared.setConfig(c.RateLimit)
	}
}

// setAdminTokens applies the tokens of the admin listener, and logs which of them changed.
func (p *parts) setAdminTokens(c config.Admin) {
	operators, metrics := c.Token.Reveal(), c.MetricsToken.Reveal()
	changed, metricsChanged := p.admin.SetTokens(operators, metrics)
	switch {
	case changed && operators == "":
		p.logger.Warn("the admin token was removed: the admin listener requires none")
	case changed:
		p.logger.Info("the admin token changed: the previous one is refused")
	}
	switch {
	case metricsChanged && metrics == "":
		p.logger.Info("the token for metrics was removed: it is refused")
	case metricsChanged:
		p.logger.Info("the token for metrics changed: the previous one is refused")
	}
}

func (p *parts) close() error {
	var err error
	if p.limiter != nil {
		err = p.limiter.close()
	}
	if p.clients != nil {
		err = errors.Join(err, p.clients.Close())
	}
	p.traces.Close() // last, so that traces include the calls above
	return err
}

// ServeHTTP handles a request of the public API under the active snapshot.
func (p *parts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.current.Load().gateway.ServeHTTP(w, r)
}

// background returns the background tasks; each ends with its context. Run runs the refunds separately, because they end before the others.
func (p *parts) background() []func(context.Context) error {
	all := []func(context.Context) error{
		p.authenticator.Run, p.busiest.Run, p.denied.Run, p.console.Run, p.overload.run, p.logLimits.Run, p.fleet.run,
	}
	all = append(all, func(ctx context.Context) error { return p.limiter.run(ctx, p.fleet.status) })
	if p.limiter.demand != nil {
		all = append(all, p.limiter.demand.Run)
	}
	return all
}

func dial(o Options, registry prometheus.Registerer, traces *tracing.Provider) (*backendclient.Clients, error) {
	return backendclient.Dial(backendclient.Options{
		Upstreams:   upstreams(o.Loaded.Upstreams),
		Settings:    callSettings(o.Loaded.Config),
		Version:     o.Build.Version,
		Logger:      o.Logger,
		Registerer:  registry,
		DialOptions: traces.DialOptions(),
		Exemplar:    traces.Exemplar(),
	})
}

func upstreams(c config.Upstreams) backendclient.Upstreams {
	return backendclient.Upstreams{
		Fleet:      upstream(c.Fleet),
		Monitoring: upstream(c.Monitoring),
		Incident:   upstream(c.Incident),
		Audit:      upstream(c.Audit),
		Identity:   upstream(c.Identity),
	}
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
