package tracing

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// Trust says whose traces are gone on with.
type Trust int

// Whom to trust.
const (
	TrustNever   Trust = iota // nobody: each trace begins here
	TrustProxies              // peers that are in Settings.Proxies
	TrustAlways               // everybody
)

// Settings are what may change while spans are recorded.
type Settings struct {
	Sample  float64 // part of the traces that begin here which are recorded, 0 to 1
	Trust   Trust
	Proxies []netip.Prefix
}

// trusts tells whether the peer's word counts: that there is a trace, and whether it is recorded.
func (s *Settings) trusts(remote string) bool {
	if s.Trust != TrustProxies {
		return s.Trust == TrustAlways
	}
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false // a listener without IP addresses
	}
	addr := peer.Addr().Unmap()
	return slices.ContainsFunc(s.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// draw decides on a trace that begins here. The runtime's generator is each thread's own, so requests share no lock.
func (s *Settings) draw() bool {
	return s.Sample > 0 && float64(rand.Uint64()) < s.Sample*math.MaxUint64
}
