package status

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/ratelimit"
	"opsgate/ratelimit/redisstore"
)

// Self returns the status of this gateway.
func (i *Inspector) Self() admin.GatewayStatus {
	o := i.options
	active, store, rates, now := o.Active(), i.Store(), o.Rates(), o.Clock().UTC()
	since := active.Since.UTC()
	s := admin.GatewayStatus{
		Host: o.Host, AdminListen: o.AdminListen, Version: o.Build.Version, Revision: o.Build.Revision,
		ConfigVersion: active.Version, ConfigSince: &since, LimitsVersion: active.LimitsVersion,
		ConfigRefused: active.LastReload != nil && active.LastReload.Outcome == admin.ReloadRefused,
		Mode:          string(store.Mode), Draining: o.Draining(), Breakers: []string{},
		RPS: rates.All, FailedRPS: rates.Failed, LimitedRPS: rates.Limited,
		Up: max(0, now.Sub(i.started).Seconds()), At: now.Truncate(time.Millisecond),
	}
	if store.Mode != ratelimit.ModeMemory && store.Since != nil {
		modeSince := store.Since.UTC()
		s.ModeSince = &modeSince
	}
	for service, b := range o.Clients.Breakers() {
		if b.State != backendclient.BreakerClosed {
			s.Breakers = append(s.Breakers, service)
		}
	}
	slices.Sort(s.Breakers)
	ready := !s.Draining
	for _, d := range i.Dependencies() {
		ready = ready && !d.NotReady
	}
	s.Ready = &ready
	return s
}

// Run reads the other gateways each time that a page requests them, and every unrequestedReadEvery, so that a page that is opened in an
// outage of Redis has a last reading. It returns nil when ctx ends.
func (i *Inspector) Run(ctx context.Context) error {
	if i.peers == nil {
		return nil
	}
	tick := time.NewTicker(unrequestedReadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-i.peers.requested:
		case <-tick.C:
		}
		i.peers.read(ctx, i.Self())
	}
}

// Gateways implements [console.Source]. It does not wait for Redis.
func (i *Inspector) Gateways() admin.Gateways {
	if i.peers == nil {
		return admin.Gateways{State: admin.GatewaysMemory, Gateways: []admin.Gateway{{Self: true, GatewayStatus: i.Self()}}}
	}
	i.peers.request()
	return i.peers.view(i.Self())
}

// ReadGateways implements [admin.Inspector].
func (i *Inspector) ReadGateways(ctx context.Context) admin.Gateways {
	if i.peers == nil {
		return i.Gateways()
	}
	i.peers.read(ctx, i.Self())
	return i.peers.view(i.Self())
}

const (
	// minReadInterval is the minimum interval between reads of the peers.
	minReadInterval = 2 * time.Second
	// unrequestedReadEvery is the interval of reads that no page requests. A read of 200 gateways takes Redis 0.4 ms.
	unrequestedReadEvery = 30 * time.Second
	// currentFor is how long the result of a read is current. A page that is open requests the next read long before that.
	currentFor = 5 * minReadInterval
	// shownFor is how long the result of a read is shown, with its age.
	shownFor = time.Hour
	// maxGateways is the number of gateways that are shown.
	maxGateways = 200
)

// peers are the other gateways with the same Redis, as last read.
type peers struct {
	gateways *redisstore.Gateways
	clock    func() time.Time

	requested chan struct{} // one element if the peers are to be read
	reads     sync.Mutex    // serializes reads
	last      atomic.Pointer[reading]
}

// A reading is a read of the peers.
type reading struct {
	triedAt time.Time
	readAt  time.Time       // of the last successful read; zero for none
	others  []admin.Gateway // as of readAt
	omitted int
	err     error // of the last attempt
}

func newPeers(gateways *redisstore.Gateways, clock func() time.Time) *peers {
	return &peers{gateways: gateways, clock: clock, requested: make(chan struct{}, 1)}
}

// request makes Inspector.Run read the peers. It does not wait.
func (p *peers) request() {
	select {
	case p.requested <- struct{}{}:
	default:
	}
}

// read reads the peers, unless the last attempt is recent. self is this gateway.
func (p *peers) read(ctx context.Context, self admin.GatewayStatus) {
	p.reads.Lock()
	defer p.reads.Unlock()
	now, r := p.clock(), reading{}
	if last := p.last.Load(); last != nil {
		if age := now.Sub(last.triedAt); age >= 0 && age < minReadInterval { // negative after the clock was set back
			return
		}
		r = *last
	}
	r.triedAt = now
	var found []redisstore.Gateway
	if found, r.err = p.gateways.List(ctx); r.err == nil {
		r.readAt = p.clock()
		r.others, r.omitted = p.others(found, self, r.readAt)
	}
	p.last.Store(&r)
}

// others returns the gateways found without this one, and how many of them are left out.
func (p *peers) others(found []redisstore.Gateway, self admin.GatewayStatus, now time.Time) (list []admin.Gateway, omitted int) {
	type address struct{ host, listen string }
	// The addresses of gateways whose last heartbeat is more recent: found is sorted by it, the most recent first.
	newer := map[address]bool{{self.Host, self.AdminListen}: true}
	for _, peer := range found {
		if peer.ID == p.gateways.ID() {
			continue
		}
		heardAt := now.Add(-peer.Age).UTC().Truncate(time.Millisecond)
		g := admin.Gateway{ID: printableID(peer.ID), HeardAt: &heardAt, Silent: peer.Silent}
		var ok bool
		if g.GatewayStatus, ok = admin.DecodeStatus(peer.Status, heardAt); !ok {
			g.Unknown, g.Breakers = true, []string{}
		}
		at := address{g.Host, g.AdminListen}
		if g.Silent && g.Host != "" && newer[at] { // it was killed, and another process was started in its place
			continue
		}
		newer[at] = true
		if len(list) == maxGateways-1 { // this gateway is shown too
			omitted++
			continue
		}
		list = append(list, g)
	}
	return list, omitted
}

// view returns the gateways as last read, if less than shownFor ago, with the current status of this one.
func (p *peers) view(self admin.GatewayStatus) admin.Gateways {
	v := admin.Gateways{
		State: admin.GatewaysReading, Gateways: []admin.Gateway{{Self: true, ID: printableID(p.gateways.ID()), GatewayStatus: self}},
	}
	last, now := p.last.Load(), p.clock()
	if last == nil {
		return v
	}
	switch failed := p.gateways.StatusError(); {
	case now.Sub(last.triedAt) >= currentFor: // no page was open until now: its first read is in progress
	case last.err != nil:
		v.State, v.Error = admin.GatewaysStale, "the other gateways cannot be read: "+callCause(last.err)
	case failed != nil:
		v.State, v.Error = admin.GatewaysCurrent, "the status of this gateway is not written: "+callCause(failed)
	default:
		v.State = admin.GatewaysCurrent
	}
	if last.readAt.IsZero() || now.Sub(last.readAt) >= shownFor {
		return v
	}
	at := last.readAt.UTC().Truncate(time.Millisecond)
	v.ReadAt, v.Omitted, v.Gateways = &at, last.omitted, append(v.Gateways, last.others...)
	slices.SortFunc(v.Gateways, func(a, b admin.Gateway) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.AdminListen, b.AdminListen), cmp.Compare(a.ID, b.ID))
	})
	return v
}

// callCause returns why a call of Redis failed, without other text of Redis.
func callCause(err error) string { return cmp.Or(redisCause(err.Error()), "the call of Redis failed") }

// shownDigits is the number of hexadecimal digits of an id on the page. Eight are different among 200 gateways.
const shownDigits = 8

// printableID returns the first hexadecimal digits of an id. Another process may have written any bytes as id: of an id that is too short
// or has any other character, it returns the first bytes in hexadecimal form.
func printableID(id string) string {
	if len(id) < shownDigits || strings.Trim(id, "0123456789abcdef") != "" {
		return hex.EncodeToString([]byte(id[:min(len(id), shownDigits/2)]))
	}
	return id[:shownDigits]
}
