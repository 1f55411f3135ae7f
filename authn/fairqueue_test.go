package authn

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"

	"opsgate/internal/netaddr"

	"pgregory.net/rapid"
)

// A queueModel models a fairQueue without lists: it records the last turn of each network and site,
// and the one with the earliest last turn is next.
type queueModel struct {
	queue    fairQueue
	slots    int
	inFlight int
	waiting  []netip.Prefix // of each request
	queued   []*flight      // in order of arrival
	tick     int
	lastTurn map[netip.Prefix]int // by network or site: the tick of its last turn, or of its first arrival since its queue was empty
}

func identity(network netip.Prefix) netip.Prefix { return network }

// waits returns the number of waiting requests of a network or site.
func (m *queueModel) waits(which netip.Prefix, level func(netip.Prefix) netip.Prefix) (n int) {
	for _, network := range m.waiting {
		if level(network) == which {
			n++
		}
	}
	return n
}

func (m *queueModel) hasQueued(which netip.Prefix, level func(netip.Prefix) netip.Prefix) bool {
	return slices.ContainsFunc(m.queued, func(f *flight) bool { return level(f.network) == which })
}

// next returns the next lookup, or nil.
func (m *queueModel) next() *flight {
	if m.inFlight >= m.slots || len(m.queued) == 0 {
		return nil
	}
	f := slices.MinFunc(m.queued, func(a, b *flight) int {
		return cmp.Or(
			cmp.Compare(m.lastTurn[netaddr.SiteOfNetwork(a.network)], m.lastTurn[netaddr.SiteOfNetwork(b.network)]),
			cmp.Compare(m.lastTurn[a.network], m.lastTurn[b.network]),
		) // the first of equals: the oldest of a network
	})
	m.tick++
	m.lastTurn[f.network], m.lastTurn[netaddr.SiteOfNetwork(f.network)] = m.tick, m.tick
	m.queued = without(m.queued, f)
	m.inFlight++
	return f
}

// begin starts lookups while slots are free.
func (m *queueModel) begin(t *rapid.T) {
	for {
		want, got := m.next(), m.queue.next(m.slots)
		if want != got {
			t.Fatalf("next is %+v, want %+v", got, want)
		}
		if got == nil {
			return
		}
	}
}

// arrive adds a request, with a new lookup or for an existing one.
func (m *queueModel) arrive(t *rapid.T, network netip.Prefix, shares bool) {
	room := WaitersPerLookup*m.slots - len(m.waiting)
	ofNetwork, ofSite := m.waits(network, identity), m.waits(netaddr.SiteOfNetwork(network), netaddr.SiteOfNetwork)
	want := ofNetwork < room && ofSite < siteFactor*room
	if got := m.queue.admit(network, m.slots); got != want {
		t.Fatalf("%v with %d waiting, %d of its site, and %d free places: admitted is %t", network, ofNetwork, ofSite, room, got)
	}
	if !want {
		return
	}
	m.waiting = append(m.waiting, network)
	if shares {
		return
	}
	m.tick++
	if !m.hasQueued(netaddr.SiteOfNetwork(network), netaddr.SiteOfNetwork) {
		m.lastTurn[netaddr.SiteOfNetwork(network)] = m.tick
	}
	if !m.hasQueued(network, identity) {
		m.lastTurn[network] = m.tick
	}
	f := &flight{network: network}
	m.queue.push(f)
	m.queued = append(m.queued, f)
	m.begin(t)
}

// check compares the counts, and checks that networks without requests and lookups are removed.
func (m *queueModel) check(t *rapid.T) {
	networks, sites := make(map[netip.Prefix]bool), make(map[netip.Prefix]bool)
	for _, network := range m.waiting {
		networks[network], sites[netaddr.SiteOfNetwork(network)] = true, true
	}
	for _, f := range m.queued {
		networks[f.network], sites[netaddr.SiteOfNetwork(f.network)] = true, true
	}
	kept := 0
	for _, s := range m.queue.sites {
		kept += len(s.networks)
	}
	if kept != len(networks) || len(m.queue.sites) != len(sites) {
		t.Fatalf("%d networks and %d sites are kept, want %d and %d", kept, len(m.queue.sites), len(networks), len(sites))
	}
	if m.queue.waiting != len(m.waiting) || m.queue.queued.Load() != int64(len(m.queued)) || m.queue.inFlight.Load() != int64(m.inFlight) {
		t.Fatalf("counts %d, %d, %d; want %d, %d, %d", m.queue.waiting, m.queue.queued.Load(), m.queue.inFlight.Load(),
			len(m.waiting), len(m.queued), m.inFlight)
	}
}

func TestFairQueueMatchesItsModel(t *testing.T) {
	var networks []netip.Prefix // of four sites
	for _, address := range []string{"192.0.2.1", "198.51.100.1", "2001:db8::1", "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:1::1"} {
		networks = append(networks, netaddr.NetworkOf(netip.MustParseAddr(address)))
	}
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{queue: newFairQueue(), slots: rapid.IntRange(1, 5).Draw(t, "slots"), lastTurn: make(map[netip.Prefix]int)}
		arrive := func(t *rapid.T) {
			m.arrive(t, rapid.SampledFrom(networks).Draw(t, "network"), rapid.IntRange(0, 3).Draw(t, "shares") == 0)
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": arrive, "arrive too": arrive, "arrive as well": arrive,
			"end": func(t *rapid.T) {
				if m.inFlight == 0 {
					t.Skip("none in flight")
				}
				m.inFlight--
				m.queue.done()
				m.begin(t)
			},
			"leave": func(t *rapid.T) {
				if len(m.waiting) == 0 {
					t.Skip("none waits")
				}
				i := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "request")
				m.queue.release(m.waiting[i])
				m.waiting = slices.Delete(m.waiting, i, i+1)
			},
			"drop": func(t *rapid.T) {
				if len(m.queued) == 0 {
					t.Skip("none is queued")
				}
				f := rapid.SampledFrom(m.queued).Draw(t, "lookup")
				m.queue.drop(f)
				m.queued = without(m.queued, f)
			},
			"reload": func(t *rapid.T) { m.slots = rapid.IntRange(1, 5).Draw(t, "slots") },
			"":       m.check,
		})
	})
}
