package gateway

import (
	"iter"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddr returns the address that the request came from, as [authn.Source] asks for it.
func (r *Request) ClientAddr() netip.Addr {
	return clientAddress(r.http(), r.gateway.options.TrustedProxies)
}

// clientAddress returns the address that a request came from: the peer's, unless the peer is a proxy that we trust. Then
// X-Forwarded-For is read from its end, where our proxies wrote, up to the first address that is not theirs: what stands
// before that is the client's own claim, and is not even looked at. All lines of the header count, since a proxy may add its own
// instead of appending.
func clientAddress(req *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.IPv4Unspecified() // a listener without IP addresses
	}
	addr := peer.Addr().Unmap()
	if !contains(trusted, addr) {
		return addr
	}
	for hop := range hopsBackward(req.Header["X-Forwarded-For"]) {
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

// hopsBackward returns the elements of a header's lines from the last to the first. It finds them one by one: a client may claim
// thousands, of which none is read.
func hopsBackward(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for {
				comma := strings.LastIndexByte(line, ',')
				if !yield(line[comma+1:]) {
					return
				}
				if comma < 0 {
					break
				}
				line = line[:comma]
			}
		}
	}
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
