package wiring

import (
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
)

func newConsole(o Options, i *inspector, sampler *console.Sampler) *console.Console {
	return console.New(console.Options{
		Sampler: sampler, Source: i, Host: i.parts.fleet.host, Version: o.Build.Version, Clock: o.Clock,
	})
}

var _ console.Source = (*inspector)(nil)

// Dependencies implements [console.Source].
func (i *inspector) Dependencies() map[string]admin.Dependency { return i.parts.dependencies() }

// Store implements [console.Source].
func (i *inspector) Store() admin.Store { return i.parts.storeState() }
