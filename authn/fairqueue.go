package authn

import (
	"net/netip"
	"slices"
	"sync/atomic"
)

const (
	// WaitersPerLookUp is how many requests may wait for each unknown token's look-up that may be in flight.
	WaitersPerLookUp = 8
	// siteShare bounds the waiting requests of a site: siteShare times the room that is left.
	siteShare = 3
)

// A fairQueue divides the look-ups of unknown tokens among source networks. It has two rules.
//
// Room: a network may have as many requests waiting as there is room left, and a site siteShare times as many. So one network takes at most
// half of the room, a site three quarters, and n networks n parts of n+1. A network of a site that has none waiting is refused only if
// there is no room at all. Requests that wait for the same look-up count too, as each of them holds a request of the gateway.
//
// Turns: look-ups that are queued begin in turn (round robin): site by site, within a site network by network, within a network the
// oldest first. An IPv6 site is a /48, as one client may have all networks of it; an IPv4 network is a site of its own.
//
// Its state is bounded by the room: it holds no network without a waiting request or a queued look-up. The caller holds memory.mu, but
// for reading the two counters.
type fairQueue struct {
	sites   map[netip.Prefix]*site
	turns   []*site // those with queued look-ups, the next one first
	waiting int     // requests, all sites together

	inFlight, queued atomic.Int64 // look-ups
}

type site struct {
	networks map[netip.Prefix]*sourceNetwork
	turns    []*sourceNetwork // those with queued look-ups, the next one first
	waiting  int              // requests, all networks together
}

type sourceNetwork struct {
	waiting int       // requests
	queue   []*flight // look-ups, the oldest first
}

func newFairQueue() fairQueue { return fairQueue{sites: make(map[netip.Prefix]*site)} }

// find returns a network that has something waiting or queued, and its site; else the zero of either.
func (q *fairQueue) find(network netip.Prefix) (*site, *sourceNetwork) {
	s := q.sites[siteOf(network)]
	if s == nil {
		return nil, nil
	}
	return s, s.networks[network]
}

// admit counts a request that waits for a look-up, if there is room for one more of its network. Slots is how many look-ups may be in
// flight.
func (q *fairQueue) admit(network netip.Prefix, slots int) bool {
	s, n := q.find(network)
	if s == nil {
		s = &site{networks: make(map[netip.Prefix]*sourceNetwork)}
	}
	if n == nil {
		n = &sourceNetwork{}
	}
	if room := WaitersPerLookUp*slots - q.waiting; n.waiting >= room || s.waiting >= siteShare*room {
		return false
	}
	q.sites[siteOf(network)], s.networks[network] = s, n
	n.waiting++
	s.waiting++
	q.waiting++
	return true
}

// leave takes a request back that was admitted.
func (q *fairQueue) leave(network netip.Prefix) {
	s, n := q.find(network)
	n.waiting--
	s.waiting--
	q.waiting--
	q.prune(network, s, n)
}

// push queues a look-up for a turn of its network, of which a request has been admitted.
func (q *fairQueue) push(f *flight) {
	s, n := q.find(f.network)
	if len(s.turns) == 0 {
		q.turns = append(q.turns, s)
	}
	if len(n.queue) == 0 {
		s.turns = append(s.turns, n)
	}
	n.queue = append(n.queue, f)
	f.queued = true
	q.queued.Add(1)
}

// next returns the look-up whose turn it is and counts it as in flight. It returns nil if none is queued or no slot is free.
func (q *fairQueue) next(slots int) *flight {
	if len(q.turns) == 0 || q.inFlight.Load() >= int64(slots) {
		return nil
	}
	s := q.turns[0]
	n := s.turns[0]
	f := n.queue[0]
	n.queue = slices.Delete(n.queue, 0, 1)
	s.turns = slices.Delete(s.turns, 0, 1)
	if len(n.queue) > 0 {
		s.turns = append(s.turns, n)
	}
	q.turns = slices.Delete(q.turns, 0, 1)
	if len(s.turns) > 0 {
		q.turns = append(q.turns, s)
	}
	f.queued = false
	q.queued.Add(-1)
	q.inFlight.Add(1)
	q.prune(f.network, s, n)
	return f
}

// done takes back a look-up that was in flight.
func (q *fairQueue) done() { q.inFlight.Add(-1) }

// drop removes a look-up from the queue.
func (q *fairQueue) drop(f *flight) {
	s, n := q.find(f.network)
	n.queue = without(n.queue, f)
	if len(n.queue) == 0 {
		s.turns = without(s.turns, n)
	}
	if len(s.turns) == 0 {
		q.turns = without(q.turns, s)
	}
	f.queued = false
	q.queued.Add(-1)
	q.prune(f.network, s, n)
}

// prune removes a network that has nothing waiting or queued any more, and its site likewise.
func (q *fairQueue) prune(network netip.Prefix, s *site, n *sourceNetwork) {
	if n.waiting == 0 && len(n.queue) == 0 {
		delete(s.networks, network)
	}
	if len(s.networks) == 0 {
		delete(q.sites, siteOf(network))
	}
}

// without removes an element from a list.
func without[E comparable](list []E, element E) []E {
	return slices.DeleteFunc(list, func(other E) bool { return other == element })
}
