package config

import (
	"net"
	"net/netip"
)

// Reachable returns an address at which a listener on this machine can be reached from it: that of the listener, but for one
// that listens on all addresses.
func Reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
