package tracing

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"
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
	// LiveTokens is what the tokens of clients begin with: a tracestate with such a one in it is not gone on with.
	LiveTokens string
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

// withoutTokens leaves out what a client should not have put there: it would go to the collector and to every service. A proxy that is
// trusted may hand it on.
func (s *Settings) withoutTokens(parent trace.SpanContext) trace.SpanContext {
	if s.LiveTokens == "" || !strings.Contains(parent.TraceState().String(), s.LiveTokens) {
		return parent
	}
	return parent.WithTraceState(trace.TraceState{})
}

// draw decides on a trace that begins here. The runtime's generator is each thread's own, so requests share no lock.
func (s *Settings) draw() bool {
	return s.Sample > 0 && float64(rand.Uint64()) < s.Sample*math.MaxUint64
}
