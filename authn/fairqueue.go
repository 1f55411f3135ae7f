package authn

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"opsgate/internal/netaddr"
)

const (
	// WaitersPerLookup × MaxLookups is the maximum number of requests that wait for lookups of
	// unknown tokens.
	WaitersPerLookup = 8
	// siteFactor limits the waiting requests of a site to siteFactor times the free places.
	siteFactor = 3
)

// A fairQueue divides the lookups of unknown tokens among source networks. It has WaitersPerLookup
// × MaxLookups places. A request that waits for a lookup takes one.
//
// Admission: a request is admitted while its network has fewer requests waiting than there are free
// places, and its site fewer than siteFactor times as many. So one network takes at most half of
// all places (waiting = free), a site three quarters (waiting = 3 × free), and n networks n/(n+1).
// A site without waiting requests is rejected only if no place is free. Requests that share a
// lookup take one place each, as each is in flight in the gateway.
//
// Order: queued lookups start round robin over the sites, within a site round robin over its
// networks, and within a network in order of arrival. An IPv6 site is a /48, as one client may have
// all its networks; an IPv4 network is its own site.
//
// Its size is bounded by the places: it holds no network without a waiting request or a queued
// lookup. The caller holds Authenticator.mu, except to read the two counters.
type fairQueue struct {
	sites      map[netip.Prefix]*site
	roundRobin []*site // with queued lookups; the next one first
	waiting    int     // requests, all sites together

	inFlight, queued atomic.Int64 // lookups
}

type site struct {
	networks   map[netip.Prefix]*sourceNetwork
	roundRobin []*sourceNetwork // with queued lookups; the next one first
	waiting    int              // requests, all networks together
}

type sourceNetwork struct {
	waiting int       // requests
	queue   []*flight // oldest first
}

func newFairQueue() fairQueue { return fairQueue{sites: make(map[netip.Prefix]*site)} }

// find returns the entries of a network and of its site; nil if neither requests nor lookups of
// them wait.
func (q *fairQueue) find(network netip.Prefix) (*site, *sourceNetwork) {
	s := q.sites[netaddr.SiteOfNetwork(network)]
	if s == nil {
		return nil, nil
	}
	return s, s.networks[network]
}

// admit adds a waiting request if a place is free for its network. It returns false if none is.
// MaxInFlight is the maximum number of lookups in flight.
func (q *fairQueue) admit(network netip.Prefix, maxInFlight int) bool {
	s, n := q.find(network)
	if s == nil {
		s = &site{networks: make(map[netip.Prefix]*sourceNetwork)}
	}
	if n == nil {
		n = &sourceNetwork{}
	}
	if free := WaitersPerLookup*maxInFlight - q.waiting; n.waiting >= free || s.waiting >= siteFactor*free {
		return false
	}
	q.sites[netaddr.SiteOfNetwork(network)], s.networks[network] = s, n
	n.waiting++
	s.waiting++
	q.waiting++
	return true
}

// release removes a waiting request.
func (q *fairQueue) release(network netip.Prefix) {
	s, n := q.find(network)
	n.waiting--
	s.waiting--
	q.waiting--
	q.prune(network, s, n)
}

// push queues a lookup. A request of its network has been admitted.
func (q *fairQueue) push(f *flight) {
	s, n := q.find(f.network)
	if len(s.roundRobin) == 0 {
		q.roundRobin = append(q.roundRobin, s)
	}
	if len(n.queue) == 0 {
		s.roundRobin = append(s.roundRobin, n)
	}
	n.queue = append(n.queue, f)
	f.queued = true
	q.queued.Add(1)
}

// next removes the next lookup from the queue and counts it as in flight. It returns nil if none is
// queued or maxInFlight are in flight.
func (q *fairQueue) next(maxInFlight int) *flight {
	if len(q.roundRobin) == 0 || q.inFlight.Load() >= int64(maxInFlight) {
		return nil
	}
	s := q.roundRobin[0]
	n := s.roundRobin[0]
	f := n.queue[0]
	n.queue = slices.Delete(n.queue, 0, 1)
	s.roundRobin = slices.Delete(s.roundRobin, 0, 1)
	if len(n.queue) > 0 {
		s.roundRobin = append(s.roundRobin, n)
	}
	q.roundRobin = slices.Delete(q.roundRobin, 0, 1)
	if len(s.roundRobin) > 0 {
		q.roundRobin = append(q.roundRobin, s)
	}
	f.queued = false
	q.queued.Add(-1)
	q.inFlight.Add(1)
	q.prune(f.network, s, n)
	return f
}

// done ends a lookup in flight.
func (q *fairQueue) done() { q.inFlight.Add(-1) }

// drop removes a lookup from the queue.
func (q *fairQueue) drop(f *flight) {
	s, n := q.find(f.network)
	n.queue = without(n.queue, f)
	if len(n.queue) == 0 {
		s.roundRobin = without(s.roundRobin, n)
	}
	if len(s.roundRobin) == 0 {
		q.roundRobin = without(q.roundRobin, s)
	}
	f.queued = false
	q.queued.Add(-1)
	q.prune(f.network, s, n)
}

// prune removes a network without waiting requests and queued lookups, and a site without networks.
func (q *fairQueue) prune(network netip.Prefix, s *site, n *sourceNetwork) {
	if n.waiting == 0 && len(n.queue) == 0 {
		delete(s.networks, network)
	}
	if len(s.networks) == 0 {
		delete(q.sites, netaddr.SiteOfNetwork(network))
	}
}

// without removes an element from a list.
func without[E comparable](list []E, element E) []E {
	return slices.DeleteFunc(list, func(other E) bool { return other == element })
}
