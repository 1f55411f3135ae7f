package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"

	"opsgate/internal/netaddr"
)

const (
	// proxyHeaderTimeout is the time for a header of the PROXY protocol, which senders send at
	// once.
	proxyHeaderTimeout = time.Second
	// proxyBuffer is the size of the buffer from which a header is read. One of version 1 has at
	// most 107 bytes; of version 2, the library refuses more than 4 KiB.
	proxyBuffer = 256
)

// proxied is the state of a connection that begins with a header of the PROXY protocol, by which a
// balancer passes on the address of the client. Only the goroutine that serves the connection uses
// it.
type proxied struct {
	read   bool          // the header was read
	client net.Addr      // nil if the peer is the client
	rest   *bufio.Reader // has the bytes that arrived with the header; nil if all were read
	err    error         // the error of each read if the header is missing or invalid
}

// expectProxyHeader makes the connection a proxied one if its peer is in one of the networks.
func (c *connection) expectProxyHeader(from []netip.Prefix) {
	if peer, ok := c.TCPConn.RemoteAddr().(*net.TCPAddr); ok && netaddr.Contains(from, peer.AddrPort().Addr()) {
		c.proxied = new(proxied)
	}
}

// RemoteAddr implements [net.Conn]. On a proxied connection, the first call reads the header, for
// at most proxyHeaderTimeout. net/http makes this call in the goroutine of the connection, before
// its first read. Code that accepts connections must not call RemoteAddr, which would block it.
func (c *connection) RemoteAddr() net.Addr {
	if c.proxied == nil {
		return c.TCPConn.RemoteAddr()
	}
	if p := c.proxied; !p.read {
		p.read = true
		p.readHeader(c.TCPConn)
		if p.err != nil && !errors.Is(p.err, io.EOF) && !c.awaitsHello { // net/http logs the errors of a TLS handshake
			c.owner.logf("%s: %v", c.TCPConn.RemoteAddr(), p.err)
		}
	}
	if c.proxied.client != nil {
		return c.proxied.client
	}
	return c.TCPConn.RemoteAddr()
}

// readHeader reads the header.
func (p *proxied) readHeader(conn *net.TCPConn) {
	_ = conn.SetReadDeadline(time.Now().Add(proxyHeaderTimeout)) // fails if the connection is closed, as the read does
	reader := bufio.NewReaderSize(conn, proxyBuffer)
	header, err := proxyproto.Read(reader)
	_ = conn.SetReadDeadline(time.Time{})
	if err == nil {
		p.client, err = clientOf(header)
	}
	switch {
	case reader.Buffered() == 0 && (errors.Is(err, proxyproto.ErrNoProxyProtocol) || errors.Is(err, syscall.ECONNRESET)):
		p.err = io.EOF // the peer closed or reset the connection, as health checks do
	case err != nil: // net/http sends no response after an error of this type
		p.err = &net.OpError{Op: "read", Net: "tcp", Err: fmt.Errorf("no valid header of the PROXY protocol: %w", err)}
	case reader.Buffered() > 0:
		p.rest = reader
	}
}

// clientOf returns the client in a header. It returns nil if the balancer has opened the connection
// itself (LOCAL), or cannot name the client (UNKNOWN).
func clientOf(header *proxyproto.Header) (net.Addr, error) {
	if header.Command.IsLocal() {
		return nil, nil
	}
	client, ok := header.SourceAddr.(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("%v is no TCP address", header.SourceAddr)
	}
	return client, nil
}

// receive reads what follows the header.
func (p *proxied) receive(c *connection, b []byte) (int, error) {
	c.RemoteAddr() // reads the header, unless it was read
	if p.err != nil {
		return 0, p.err
	}
	if p.rest == nil {
		return c.TCPConn.Read(b)
	}
	n, err := p.rest.Read(b) // reads from the buffer, which is not empty
	if p.rest.Buffered() == 0 {
		p.rest = nil
	}
	return n, err
}
