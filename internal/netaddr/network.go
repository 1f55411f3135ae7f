package netaddr

import "net/netip"

// The prefix lengths of client networks. An IPv6 customer gets at least a /64, and commonly a /48.
const (
	ipv4NetworkBits = 24
	ipv6NetworkBits = 64
	ipv6SiteBits    = 48
)

// NetworkOf returns the network that an address belongs to: its /24 for IPv4, IPv4-mapped IPv6
// included, and its /64 for IPv6. So all clients with an unknown address share one: that of
// 0.0.0.0, or the zero Prefix for the zero Addr.
func NetworkOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := ipv6NetworkBits
	if addr.Is4() {
		bits = ipv4NetworkBits
	}
	network, _ := addr.Prefix(bits) // no error, as the length fits the family; the zero Addr has the zero Prefix
	return network
}

// SiteOf returns the site that an address belongs to: its /24 for IPv4, IPv4-mapped IPv6 included,
// and its /48 for IPv6, as one client may have all networks in it. All clients with an unknown
// address share one.
func SiteOf(addr netip.Addr) netip.Prefix { return SiteOfNetwork(NetworkOf(addr)) }

// SiteOfNetwork returns the /48 that contains an IPv6 network; an IPv4 network is its own site.
func SiteOfNetwork(network netip.Prefix) netip.Prefix {
	if !network.Addr().Is6() {
		return network
	}
	site, _ := network.Addr().Prefix(ipv6SiteBits)
	return site
}
