package gateway

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress returns the address that a request came from: the peer's, unless the peer is a proxy that we trust. Then
// X-Forwarded-For is read from its end, where our proxies wrote, up to the first address that is not theirs: what stands
// before that is the client's own claim. All lines of the header count, since a proxy may add its own instead of appending.
func clientAddress(req *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.IPv4Unspecified() // a listener without IP addresses
	}
	addr := peer.Addr().Unmap()
	if !contains(trusted, addr) {
		return addr
	}
	hops := strings.Split(strings.Join(req.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		claimed, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			break // not an address: whoever wrote it is the last that we know
		}
		addr = claimed
		if !contains(trusted, addr) {
			break
		}
	}
	return addr
}

// parseHop reads an address with or without a port, as proxies write either.
func parseHop(hop string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(hop)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}
