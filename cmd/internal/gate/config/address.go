package config

import (
	"net"
	"net/netip"
)

// Reachable returns the address at which this machine reaches its listener: 127.0.0.1 for a listener on all addresses.
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
