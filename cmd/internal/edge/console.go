package edge

import (
	"maps"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/admin/console"
)

func newConsole(o Options, i *inspector, registry prometheus.Gatherer) *console.Console {
	host, _ := os.Hostname() // where it cannot be told, the page shows none
	return console.New(console.Options{
		Metrics: registry, Source: overview{i}, Host: host, Version: o.Build.Version, Clock: o.Clock,
	})
}

// An overview is what the page for people shows of an inspector's gateway.
type overview struct{ *inspector }

var _ console.Source = overview{}

// Dependencies implements [console.Source].
func (v overview) Dependencies() []console.Dependency {
	states, breakers := v.parts.dependencies(), v.parts.clients.Breakers()
	list := make([]console.Dependency, 0, len(states))
	for _, name := range slices.Sorted(maps.Keys(states)) {
		_, guarded := breakers[name]
		s := states[name]
		if s.OK && !guarded && name != console.Redis {
			continue // the page tells of revocations and of bounds when there is something to tell
		}
		d := console.Dependency{Name: name, State: s.State, OK: s.OK, Reason: s.Reason, Since: s.Since}
		if b := breakers[name]; guarded {
			d.Breaker = &console.Breaker{State: string(b.State), Since: b.TrippedAt, ProbesAt: b.ProbesAt, Cause: b.Cause}
		}
		if name == console.Redis {
			s := v.parts.shared.State()
			d.Breaker = &console.Breaker{State: s.Breaker, Since: s.Since, Cause: s.Cause}
		}
		list = append(list, d)
	}
	return list
}

// Store implements [console.Source].
func (v overview) Store() admin.Store { return v.parts.storeState() }

// Configuration implements [console.Source].
func (v overview) Configuration() admin.Configuration {
	now := v.parts.current.Load()
	return admin.Configuration{
		Version: now.version, Since: now.since, File: now.loaded.Path, LastReload: v.parts.lastReload.Load(),
	}
}
