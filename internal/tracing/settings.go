package tracing

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Trust is the callers whose traces are continued.
type Trust int

// Values of Trust.
const (
	TrustNever   Trust = iota // no caller: each trace starts here
	TrustProxies              // peers in Settings.Proxies
	TrustAlways               // all callers
)

// Settings can change while spans are recorded.
type Settings struct {
	Sample  float64 // fraction of the traces started here that are recorded, 0 to 1
	Trust   Trust
	Proxies []netip.Prefix
	// LiveTokenPrefix is the prefix of client tokens. A trace state that contains it is dropped.
	LiveTokenPrefix string
}

// trusts reports whether the trace context of the peer is continued.
func (s *Settings) trusts(remote string) bool {
	if s.Trust != TrustProxies {
		return s.Trust == TrustAlways
	}
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false // a listener without IP addresses
	}
	addr := peer.Addr().Unmap().WithZone("") // no prefix contains an address with a zone
	return slices.ContainsFunc(s.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// withoutTokens drops a trace state with a token, which would reach the collector and every
// service. A trusted proxy may forward one from a client.
func (s *Settings) withoutTokens(parent trace.SpanContext) trace.SpanContext {
	if s.LiveTokenPrefix == "" || !strings.Contains(parent.TraceState().String(), s.LiveTokenPrefix) {
		return parent
	}
	return parent.WithTraceState(trace.TraceState{})
}

// draw reports whether a trace that starts here is recorded. The global generator takes no lock.
func (s *Settings) draw() bool {
	return s.Sample > 0 && float64(rand.Uint64()) < s.Sample*math.MaxUint64
}
