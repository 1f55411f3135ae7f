package links

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"opsgate/authn"
)

// Bounds of the clients of one network: the /24 of an IPv4 address, the /48 of an IPv6 address.
const (
	// maxBurst is how many requests are admitted at once: a mail server may open the links of a message to a hundred readers.
	maxBurst = 100
	// interval is the time after which one more request is admitted.
	interval = time.Second / 10
	// maxNetworks bounds the networks that are counted; further ones are counted as one.
	maxNetworks = 10_000
	// maxOpen bounds the open connections, and maxOpenAll those of all networks: a flood waits in the kernel, and not for the processor
	// among the calls of teams.
	maxOpen, maxOpenAll = 16, 64
)

// parseAddress returns the IP address of a peer, or the zero Addr.
func parseAddress(peer string) netip.Addr {
	parsed, _ := netip.ParseAddrPort(peer)
	return parsed.Addr().Unmap().WithZone("")
}

func (p *Pages) isProxy(addr netip.Addr) bool {
	return slices.ContainsFunc(p.proxies, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// clientAddress returns the address of the peer, or the last one in X-Forwarded-For if the peer is a trusted proxy, which wrote it. It is
// the zero Addr without IP addresses.
func (p *Pages) clientAddress(r *http.Request) netip.Addr {
	addr := parseAddress(r.RemoteAddr)
	if lines := r.Header["X-Forwarded-For"]; len(lines) > 0 && p.isProxy(addr) {
		last := lines[len(lines)-1]
		claimed, err := netip.ParseAddr(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]))
		if err == nil {
			return claimed.Unmap().WithZone("")
		}
	}
	return addr
}

// A limiter bounds the requests of each network. It is safe for concurrent use.
type limiter struct {
	mu    sync.Mutex
	full  map[netip.Prefix]time.Time // when the burst of a network is complete again
	swept time.Time
}

// admit admits a request and returns 0, or returns the time after which one would be admitted.
func (l *limiter) admit(network netip.Prefix, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) > maxBurst*interval {
		l.swept = now
		maps.DeleteFunc(l.full, func(_ netip.Prefix, full time.Time) bool { return !full.After(now) })
	}
	full, counted := l.full[network]
	if !counted && len(l.full) >= maxNetworks {
		network = netip.Prefix{}
		full = l.full[network]
	}
	if full.Before(now) {
		full = now
	}
	full = full.Add(interval)
	if wait := full.Sub(now) - maxBurst*interval; wait > 0 {
		return wait
	}
	l.full[network] = full
	return 0
}

// Limit returns a listener for the pages with at most 64 connections at a time, and 16 of a network; further ones of a network are closed.
// Trusted proxies may use all.
func (p *Pages) Limit(listener net.Listener) net.Listener {
	return netutil.LimitListener(&limitedListener{Listener: listener, pages: p, open: map[netip.Prefix]int{}}, maxOpenAll)
}

type limitedListener struct {
	net.Listener

	pages *Pages
	mu    sync.Mutex
	open  map[netip.Prefix]int
}

// Accept accepts the next connection within the bounds.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := parseAddress(conn.RemoteAddr().String())
		if l.pages.isProxy(addr) {
			return conn, nil
		}
		network := authn.SiteOf(addr)
		if l.add(network, 1) <= maxOpen {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.add(network, -1) })}, nil
		}
		l.add(network, -1)
		l.pages.refuse(causeConnections, network)
		_ = conn.Close()
	}
}

// add adds n to the open connections of a network, and returns their number.
func (l *limitedListener) add(network netip.Prefix, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[network] += n
	if l.open[network] > 0 {
		return l.open[network]
	}
	delete(l.open, network)
	return 0
}

type limitedConn struct {
	net.Conn

	release func()
}

// Close closes the connection, which is not counted from then on.
func (c *limitedConn) Close() error {
	c.release()
	return c.Conn.Close()
}
