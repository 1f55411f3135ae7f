package wiring

import (
	"context"
	"errors"
	"os"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
	"opsgate/cmd/internal/gate/httpserver"
	"opsgate/cmd/internal/gate/status"
)

// reports are the admin pages with what they show.
type reports struct {
	overload *status.OverloadMonitor
	sampler  *console.Sampler
	pages    *admin.Admin
}

func newReports(c common, d *dependencies, b *builder, a *activeConfig, public *httpserver.Server) (*reports, error) {
	overload := status.NewOverloadMonitor(c.Logger, c.Clock,
		status.Capacity{Name: admin.DependencyCapacity, Resource: "requests in flight", Stats: b.loadLimit.Stats},
		status.Capacity{Name: admin.DependencyConnections, Resource: "open connections", Stats: public.Connections},
		status.Capacity{Resource: "bytes of incomplete headers", Stats: public.Input},
	)
	sampler := console.NewSampler(c.registry, c.Clock)
	inspector := status.New(status.Options{
		Active: a.report, Clients: d.clients, Authenticator: d.authenticator, Limits: d.limiter, Redis: d.limiter.redis(),
		Busiest: b.decisions.busiest, Overload: overload, Clock: c.Clock,
	})
	host, _ := os.Hostname() // without a name the page shows none
	page := console.New(console.Options{Sampler: sampler, Source: inspector, Host: host, Version: c.Build.Version, Clock: c.Clock})
	settings := c.Loaded.Admin
	pages := admin.New(admin.Options{
		Metrics:      c.registry,
		Dependencies: inspector.Dependencies,
		Inspector:    inspector,
		Console:      page,
		Access: admin.Access{
			Token: settings.Token.Reveal(), MetricsToken: settings.MetricsToken.Reveal(),
			ClientCertificates: settings.TLS.ClientCAFile != "", Listen: settings.Listen,
		},
		Hold:         httpserver.Hold,
		TokenPrefix:  clientTokenPrefix(c.Loaded.Config),
		Logger:       c.Logger,
		RefusalLines: c.logs.adminRefusals,
	})
	if err := errors.Join(c.registry.Register(pages.Readiness()), c.registry.Register(pages.Refusals())); err != nil {
		return nil, err
	}
	return &reports{overload, sampler, pages}, nil
}

// tasks returns the background tasks.
func (r *reports) tasks() []func(context.Context) error {
	return []func(context.Context) error{r.overload.Run, r.sampler.Run}
}
