package edge

import (
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/buildinfo"
	"opsgate/ratelimit"
)

// A fleet reports this gateway's status to the gateways that share its Redis, and returns theirs.
type fleet struct {
	parts       *parts
	host        string // "" if unknown
	build       buildinfo.Info
	clock       func() time.Time
	started     time.Time
	adminListen atomic.Pointer[string] // nil before the listener is bound
}

func newFleet(o Options, p *parts) *fleet {
	host, _ := os.Hostname() // without a name the page shows none
	return &fleet{parts: p, host: host, build: o.Build, clock: o.Clock, started: o.Clock()}
}

// bound sets the address of the admin listener, with the port in use.
func (f *fleet) bound(address net.Addr) {
	text := address.String()
	f.adminListen.Store(&text)
}

// status returns the status of this gateway.
func (f *fleet) status() admin.GatewayStatus {
	active, store, rates, now := f.parts.current.Load(), f.parts.storeState(), f.parts.console.Rates(), f.clock().UTC()
	since, last := active.since.UTC(), f.parts.lastReload.Load()
	s := admin.GatewayStatus{
		Host: f.host, Version: f.build.Version, Revision: f.build.Revision, ConfigVersion: active.version, ConfigSince: &since,
		ConfigRefused: last != nil && last.Outcome == outcomeRefused, Mode: string(store.Mode), Draining: f.parts.admin.IsDraining(),
		Breakers: []string{}, RPS: rates.All, FailedRPS: rates.Failed, LimitedRPS: rates.Limited,
		Up: max(0, now.Sub(f.started).Seconds()), At: now.Truncate(time.Millisecond),
	}
	if address := f.adminListen.Load(); address != nil {
		s.AdminListen = *address
	}
	if store.Mode != ratelimit.ModeMemory && store.Since != nil {
		modeSince := store.Since.UTC()
		s.ModeSince = &modeSince
	}
	for service, b := range f.parts.clients.Breakers() {
		if b.State != backendclient.BreakerClosed {
			s.Breakers = append(s.Breakers, service)
		}
	}
	slices.Sort(s.Breakers)
	return s
}

// view returns the fleet.
func (f *fleet) view() admin.Fleet {
	return admin.Fleet{State: admin.FleetMemory, Gateways: []admin.Gateway{{Self: true, GatewayStatus: f.status()}}}
}

// Fleet implements [console.Source].
func (i *inspector) Fleet() admin.Fleet { return i.parts.fleet.view() }
