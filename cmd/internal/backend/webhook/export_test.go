package webhook

import (
	"crypto/x509"
	"net"
	"net/netip"
	"time"

	"opsgate/cmd/internal/backend/delivery"
)

// A TestEnvironment lets a sender reach the receivers of tests, which are on loopback. All other rules are those of New.
type TestEnvironment struct {
	Ports    []uint16       // besides 443
	Allowed  []netip.Prefix // besides public addresses
	Resolver *net.Resolver
	Roots    *x509.CertPool
	Timeout  time.Duration // 0 for that of New
}

func NewInTest(o Options, e TestEnvironment) delivery.Sender {
	p := newPolicy(o.AllowHTTP)
	p.ports, p.allowed = append(p.ports, e.Ports...), e.Allowed
	if e.Timeout == 0 {
		e.Timeout = totalTimeout
	}
	return newSender(o, environment{policy: p, timeout: e.Timeout, resolver: e.Resolver, roots: e.Roots})
}
