package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// writeBuffer limits the bytes of a response that the kernel buffers for a client that does not
// read. The default would be megabytes per connection. The kernel doubles the number for its own
// use.
const writeBuffer = 128 << 10

// errStopped is the error of listener.Accept after ShutDown has set a deadline. Unlike a timeout,
// it ends http.Server.Serve.
var errStopped = errors.New("the listener takes no more connections")

type listener struct {
	*net.TCPListener

	connections *connectionSet
	tls         *tls.Config    // nil for plain HTTP
	proxiedFrom []netip.Prefix // networks of peers that send a header of the PROXY protocol
}

// Accept implements [net.Listener]. The goroutine of the connection reads the header of the PROXY
// protocol and makes the TLS handshake, in limited time.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.AcceptTCP()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, errStopped
		}
		if err != nil {
			return nil, err
		}
		conn := l.connections.add(accepted)
		if conn == nil {
			continue
		}
		conn.expectProxyHeader(l.proxiedFrom)
		_ = accepted.SetWriteBuffer(writeBuffer) // fails if the client has closed the connection
		if l.tls != nil {
			conn.awaitsHello = true
			return tls.Server(conn, l.tls), nil
		}
		return conn, nil
	}
}

// bind returns a listener on the address. If bound is not nil, bind checks its address and returns
// it. Go sets keepalive and TCP_NODELAY on each accepted connection, also of a bound listener.
func bind(ctx context.Context, address string, bound *net.TCPListener) (*net.TCPListener, error) {
	if bound != nil {
		return bound, checkAddress(address, bound.Addr())
	}
	var listening net.ListenConfig
	opened, err := listening.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tcp, _ := opened.(*net.TCPListener) // Listen returns no other type for "tcp"
	return tcp, nil
}

// checkAddress returns an error if the address of a bound listener is not the configured one.
// Checks, warnings and logs of the gateway refer to the configured address, so it must be the real
// one. An address without a host means all interfaces, as for net.Listen.
func checkAddress(configured string, bound net.Addr) error {
	want, err := net.ResolveTCPAddr("tcp", configured)
	if err != nil {
		return err
	}
	got, _ := bound.(*net.TCPAddr)
	sameIP := want.IP.Equal(got.IP) || want.IP == nil && got.IP.IsUnspecified()
	if want.Port != got.Port || !sameIP {
		return fmt.Errorf("the socket from systemd is on %s, but listen is %q: set listen to the address of ListenStream=",
			got, configured)
	}
	return nil
}
