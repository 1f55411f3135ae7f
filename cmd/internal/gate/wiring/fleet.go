package wiring

import (
	"cmp"
	"context"
	"encoding/hex"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/ratelimit"
	"opsgate/ratelimit/redisstore"
)

// A fleet reports this gateway's status to the gateways that share its Redis, and returns theirs.
type fleet struct {
	parts       *parts
	host        string // "" if unknown
	build       buildinfo.Info
	clock       func() time.Time
	started     time.Time
	adminListen atomic.Pointer[string] // nil before the listener is bound

	asked chan struct{} // one element if the fleet is to be read
	reads sync.Mutex    // serializes reads
	last  atomic.Pointer[fleetReading]
}

func newFleet(o Options, p *parts) *fleet {
	host, _ := os.Hostname() // without a name the page shows none
	return &fleet{parts: p, host: host, build: o.Build, clock: o.Clock, started: o.Clock(), asked: make(chan struct{}, 1)}
}

// bound sets the address of the admin listener, with the port in use.
func (f *fleet) bound(address net.Addr) {
	text := address.String()
	f.adminListen.Store(&text)
}

// replicas returns the gateways that share the Redis; nil if limits are counted in memory.
func (f *fleet) replicas() *redisstore.Replicas {
	if f.parts.limiter.shared == nil {
		return nil
	}
	return f.parts.limiter.shared.replicas
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

const (
	// fleetReadEvery is the minimum interval between reads.
	fleetReadEvery = 2 * time.Second
	// fleetReadRecently is the age of the last attempt to read from which it belongs to a page that was closed.
	fleetReadRecently = 5 * fleetReadEvery
	// maxGateways is the number of gateways that are shown.
	maxGateways = 200
)

// A fleetReading is the last read of the fleet.
type fleetReading struct {
	triedAt time.Time
	readAt  time.Time       // of the last successful read; zero for none
	others  []admin.Gateway // as of readAt
	omitted int
	err     error // of the last attempt
}

// run reads the fleet each time that it was asked for, until ctx ends.
func (f *fleet) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.asked:
			f.read(ctx)
		}
	}
}

// read reads the fleet, unless the last attempt is recent.
func (f *fleet) read(ctx context.Context) {
	if f.replicas() == nil {
		return
	}
	f.reads.Lock()
	defer f.reads.Unlock()
	now, r := f.clock(), fleetReading{}
	if last := f.last.Load(); last != nil {
		if age := now.Sub(last.triedAt); age >= 0 && age < fleetReadEvery {
			return
		}
		r = *last
	}
	r.triedAt = now
	var peers []redisstore.Peer
	if peers, r.err = f.replicas().Peers(ctx); r.err == nil {
		r.readAt = f.clock()
		r.others, r.omitted = f.gatewaysOf(peers, r.readAt)
	}
	f.last.Store(&r)
}

// gatewaysOf returns the other gateways among the peers, and how many of them are left out.
func (f *fleet) gatewaysOf(peers []redisstore.Peer, now time.Time) (list []admin.Gateway, omitted int) {
	type address struct{ host, listen string }
	self := f.status()
	newer := map[address]bool{{self.Host, self.AdminListen}: true} // peers are sorted, those heard last first
	for _, p := range peers {
		if p.ID == f.replicas().ID() {
			continue
		}
		heardAt := now.Add(-p.Age).UTC().Truncate(time.Millisecond)
		g := admin.Gateway{ID: printableID(p.ID), HeardAt: &heardAt, Silent: p.Silent}
		var known bool
		if g.GatewayStatus, known = admin.DecodeStatus(p.Status, heardAt); !known {
			g.Unknown, g.Breakers = true, []string{}
		}
		at := address{g.Host, g.AdminListen}
		if g.Silent && g.Host != "" && newer[at] { // it was killed, and another process was started in its place
			continue
		}
		newer[at] = true
		if len(list) == maxGateways-1 {
			omitted++
			continue
		}
		list = append(list, g)
	}
	return list, omitted
}

// view returns the fleet as last read, with the current status of this gateway.
func (f *fleet) view() admin.Fleet {
	self := admin.Gateway{Self: true, GatewayStatus: f.status()}
	if f.replicas() == nil {
		return admin.Fleet{State: admin.FleetMemory, Gateways: []admin.Gateway{self}}
	}
	self.ID = printableID(f.replicas().ID())
	v := admin.Fleet{State: admin.FleetReading, Gateways: []admin.Gateway{self}}
	last := f.last.Load()
	if last == nil || f.clock().Sub(last.triedAt) >= fleetReadRecently {
		return v
	}
	v.State, v.Omitted = admin.FleetCurrent, last.omitted
	switch {
	case last.err != nil:
		v.State, v.Error = admin.FleetStale, "the other gateways cannot be read: "+fleetCause(last.err)
	case f.replicas().StatusError() != nil:
		v.Error = "the status of this gateway is not written: " + fleetCause(f.replicas().StatusError())
	}
	if !last.readAt.IsZero() {
		at := last.readAt.UTC().Truncate(time.Millisecond)
		v.ReadAt = &at
	}
	v.Gateways = append(v.Gateways, last.others...)
	slices.SortFunc(v.Gateways, func(a, b admin.Gateway) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.AdminListen, b.AdminListen), cmp.Compare(a.ID, b.ID))
	})
	return v
}

// fleetCause returns why a call failed, without other text of Redis.
func fleetCause(err error) string {
	return cmp.Or(redisCause(err.Error()), "the call of Redis failed")
}

// shownID is the length of an id on the page. Eight hexadecimal digits are different among 200 gateways.
const shownID = 8

// printableID returns the beginning of an id, which another process may have written.
func printableID(id string) string {
	if len(id) < shownID || strings.Trim(id, "0123456789abcdef") != "" {
		return hex.EncodeToString([]byte(id[:min(len(id), shownID/2)]))
	}
	return id[:shownID]
}

// Fleet implements [console.Source]. It does not wait for Redis.
func (i *inspector) Fleet() admin.Fleet {
	select {
	case i.parts.fleet.asked <- struct{}{}:
	default:
	}
	return i.parts.fleet.view()
}

// ReadFleet implements [admin.Inspector].
func (i *inspector) ReadFleet(ctx context.Context) admin.Fleet {
	i.parts.fleet.read(ctx)
	return i.parts.fleet.view()
}
