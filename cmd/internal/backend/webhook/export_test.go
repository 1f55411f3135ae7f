package webhook

import (
	"crypto/x509"
	"net"
	"net/netip"
	"time"
)

// InTest lets a sender reach receivers at an address and ports, by names of a resolver, with a
// timeout unless it is 0.
func (o Options) InTest(address string, ports []uint16, resolver *net.Resolver, roots *x509.CertPool, timeout time.Duration) Options {
	allowed := []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(address), 32)}
	o.inTests = exceptions{ports: ports, allowed: allowed, resolver: resolver, roots: roots, timeout: timeout}
	return o
}
