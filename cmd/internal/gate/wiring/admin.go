package wiring

import (
	"os"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/httpserver"
)

// newAdmin returns the admin pages, with their metrics registered.
func newAdmin(c common, d *dependencies, b *builder, a *activeConfig, public *httpserver.Server) (*admin.Admin, error) {
	host, _ := os.Hostname() // without a name the page shows none
	settings := c.Loaded.Admin
	pages := admin.New(admin.Options{
		Active: a.report, Clients: d.clients, Authenticator: d.authenticator, Limits: d.limiter, Redis: d.limiter.redis(),
		Busiest: b.busiest.sketch,
		Capacities: []admin.Capacity{
			{Name: "capacity", Resource: "requests in flight", Stats: b.loadLimit.Stats},
			{Name: "connections", Resource: "open connections", Stats: public.Connections},
			{Resource: "bytes of incomplete headers", Stats: public.Input},
		},
		Metrics: c.registry,
		Access: admin.Access{
			Token: settings.Token.Reveal(), MetricsToken: settings.MetricsToken.Reveal(),
			ClientCertificates: settings.TLS.ClientCAFile != "", Listen: settings.Listen,
		},
		MarkBusy:        httpserver.MarkBusy,
		LiveTokenPrefix: liveTokenPrefix(c.Loaded.Config), Host: host, Version: c.Build.Version,
		Logger: c.Logger, RefusalLines: c.logs.adminRefusals, Clock: c.Clock,
	})
	return pages, c.registry.Register(pages)
}
