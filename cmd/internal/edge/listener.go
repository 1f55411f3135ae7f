package edge

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
)

// writeBuffer limits how much of a response the kernel buffers for a client that does not read; by default that is megabytes per
// connection. The kernel doubles the number for its own use.
const writeBuffer = 128 << 10

// errStopped is returned by listener.Accept after the deadline of the listener. Unlike a timeout, it ends http.Server.Serve.
var errStopped = errors.New("the listener takes no more connections")

// A listener accepts TCP connections up to the limit of its connections.
type listener struct {
	*net.TCPListener

	connections *connections
	tls         *tls.Config // nil for plain HTTP
}

// Accept implements [net.Listener]. The TLS handshake is left to the http.Server, which limits its time by ReadHeaderTimeout.
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
		_ = accepted.SetWriteBuffer(writeBuffer) // fails if the client has closed the connection
		if l.tls != nil {
			return tls.Server(conn, l.tls), nil
		}
		return conn, nil
	}
}
