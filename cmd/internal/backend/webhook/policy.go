package webhook

import (
	"fmt"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// A policy decides which URLs and addresses the sender may connect to.
type policy struct {
	allowHTTP bool
	ports     []uint16
	allowed   []netip.Prefix // in spite of the rules; only tests have some
}

func newPolicy(allowHTTP bool) policy {
	p := policy{allowHTTP: allowHTTP, ports: []uint16{443}}
	if allowHTTP {
		p.ports = append(p.ports, 80)
	}
	return p
}

// guard returns a function for [net.Dialer.Control]. It is called with the address of each connection, after the name is looked up, and
// refuses what is not a public unicast address. So a name that is looked up again cannot lead anywhere else.
func (p policy) guard() func(network, address string, _ syscall.RawConn) error {
	azureHost := netip.MustParsePrefix("168.63.129.16/32") // its metadata service; IANA does not list it as special
	guardian := ssrf.New(ssrf.WithPorts(p.ports...), ssrf.WithAllowedV4Prefixes(p.allowed...), ssrf.WithDeniedV4Prefixes(azureHost))
	return func(network, address string, c syscall.RawConn) error {
		if guardian.Safe(network, address, c) != nil {
			return &addressError{address}
		}
		return nil
	}
}

// An addressError is the failure to connect to an address that is not allowed.
type addressError struct{ address string }

func (e *addressError) Error() string { return fmt.Sprintf("address %s is not allowed", e.address) }
