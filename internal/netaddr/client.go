package netaddr

import (
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// ClientOf returns the address of the client of a request, from that of its peer (host:port) and
// the lines of X-Forwarded-For: that of the peer, unless the peer is a trusted proxy. Then it is
// the last address in X-Forwarded-For that is not a trusted proxy; entries before that are written
// by the client. All lines of the header are read, because a proxy may add a line instead of
// appending to one.
func ClientOf(peer string, forwardedFor []string, trusted []netip.Prefix) netip.Addr {
	by, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.IPv4Unspecified() // a listener without IP addresses
	}
	addr := normalized(by.Addr())
	for hop := range hopsBackward(forwardedFor) {
		if !contains(trusted, addr) {
			break
		}
		before, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			break // addr stays that of the last trusted proxy
		}
		addr = before
	}
	return addr
}

// hopsBackward yields the elements of a header's lines from the last to the first. It splits
// lazily: a client may send thousands of elements, and few are used.
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

// parseHop parses an address with or without a port.
func parseHop(hop string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(hop)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return normalized(addr), true
}

// normalized returns an address in the form of those that a prefix contains: as IPv4 if it is
// IPv4-mapped, and without a zone.
func normalized(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// Contains reports whether an address is in one of the networks.
func Contains(networks []netip.Prefix, addr netip.Addr) bool {
	return contains(networks, normalized(addr))
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}
