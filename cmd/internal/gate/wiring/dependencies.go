package wiring

import (
	"context"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/tracing"
)

// dependencies are the parts that the gateway calls. They live as long as the process.
type dependencies struct {
	traces        *tracing.Provider // nil if traces are disabled; its methods do nothing then
	limiter       *limiter
	clients       *backendclient.Clients
	authenticator *authn.Authenticator
}

// newDependencies creates the dependencies without waiting for connections. It adds their Close
// functions to opened.
func newDependencies(c common, opened *closers) (*dependencies, error) {
	c.Logger = c.logs.dependencies // in this copy of c only: it limits the lines of all dependencies
	traces, err := NewTracing(c.Options, "", c.registry)
	if err != nil {
		return nil, err
	}
	opened.add(func() error { // added first, so closed last: traces include what the others do until then
		traces.Close()
		return nil
	})
	limiter, err := newLimiter(c, traces)
	if err != nil {
		return nil, err
	}
	opened.add(limiter.close)
	clients, err := backendclient.Dial(backendclient.Options{
		Upstreams:   upstreams(c.Loaded.Upstreams),
		Settings:    callSettings(c.Loaded.Config),
		Version:     c.Build.Version,
		Logger:      c.Logger,
		Registerer:  c.registry,
		DialOptions: traces.DialOptions(),
		Exemplar:    traces.Exemplar(),
	})
	if err != nil {
		return nil, err
	}
	opened.add(clients.Close)
	authenticator, err := authn.New(authn.Options{
		Format:     authn.TokenFormat{Prefix: c.Loaded.TokenPrefix},
		Identity:   clients.Identity,
		Settings:   tokenSettings(c.Loaded.Config),
		MaxEntries: c.Loaded.Authn.MaxEntries,
		Logger:     c.Logger,
		Registerer: c.registry,
	})
	if err != nil {
		return nil, err
	}
	return &dependencies{traces, limiter, clients, authenticator}, nil
}

// tasks returns the background tasks.
func (d *dependencies) tasks() []func(context.Context) error {
	return []func(context.Context) error{d.authenticator.Run, d.clients.RunProbes, d.limiter.run}
}

func upstreams(c config.Upstreams) backendclient.Upstreams {
	return backendclient.Upstreams{
		Fleet:      target(c.Fleet),
		Monitoring: target(c.Monitoring),
		Incident:   target(c.Incident),
		Audit:      target(c.Audit),
		Identity:   target(c.Identity),
	}
}

func target(c config.Upstream) backendclient.Target {
	t := backendclient.Target{Address: c.Address}
	if c.TLS.Enabled {
		files := tlsFiles(c.TLS)
		t.TLS = &files
	}
	return t
}
