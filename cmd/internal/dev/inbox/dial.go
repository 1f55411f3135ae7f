package inbox

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// DialContext connects to a receiver of webhooks without leaving the machine. Each host under .example is the inbox itself. Each other host
// must have a loopback address, and only that address is connected to, so a second lookup with another result has no effect.
func (i *Inbox) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	var dialer net.Dialer
	if isExample(host) {
		return dialer.DialContext(ctx, network, i.page.Addr().String())
	}
	list, err := i.options.Lookup(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	for _, ip := range list {
		if ip.Unmap().IsLoopback() {
			return dialer.DialContext(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
		}
	}
	return nil, fmt.Errorf("%s is not on this machine: only hosts under .example and loopback addresses are connected to", host)
}

// isExample reports whether a host is under .example, which no public name server has (RFC 2606).
func isExample(host string) bool {
	return strings.HasSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), ".example")
}
