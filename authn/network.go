package authn

import "net/netip"

// A Source is where a request comes from.
type Source interface {
	// ClientAddr returns the address of the client, or the zero Addr if it is not known. It is called only for tokens that have to be
	// looked up, so it may parse headers.
	ClientAddr() netip.Addr
}

// The prefixes that stand for one client network. An IPv6 customer gets at least a /64, and commonly a /48 of them.
const (
	ipv4NetworkBits = 24
	ipv6NetworkBits = 64
	ipv6SiteBits    = 48
)

// networkOf returns the network that an address belongs to: its /24 for IPv4, IPv4-mapped IPv6 included, and its /64 for IPv6. All
// clients whose address is not known share the zero Prefix.
func networkOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := ipv6NetworkBits
	if addr.Is4() {
		bits = ipv4NetworkBits
	}
	network, _ := addr.Prefix(bits) // the bits fit the family; of the zero Addr it is the zero Prefix
	return network
}

// siteOf returns the IPv6 /48 that a network is a part of, and an IPv4 network itself.
func siteOf(network netip.Prefix) netip.Prefix {
	if !network.Addr().Is6() {
		return network
	}
	site, _ := network.Addr().Prefix(ipv6SiteBits)
	return site
}
