package httpserver

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"

	"opsgate/gateway"
)

// The input of a connection is the number of bytes that it has received since its last request
// reached the handler: a part of a handshake or of a header. net/http keeps a header of many short
// fields in up to twenty times its size, and crypto/tls buffers handshake messages of up to 64 KiB,
// also between requests. So the input of all connections together has a limit. Past the limit, the
// connections whose input began first are closed.
const (
	// freeInput is the part of each connection's input that does not count. It covers what is not
	// kept in memory: the end of a handshake, and settings and PINGs of HTTP/2. Most headers are
	// smaller than freeInput, so few requests take the lock of the set.
	freeInput = 1 << 10
	// maxHello is the maximum size of a TLS ClientHello. With keys for post-quantum cryptography it
	// has 2 KiB. crypto/tls keeps a buffer of the size of the ClientHello while the connection is
	// open.
	maxHello = 8 << 10
)

var errLongHello = errors.New("the TLS ClientHello is too long")

// Read implements [net.Conn].
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.receive(p)
	if n > 0 && c.serving.Load() == 0 {
		received := c.input.Add(int64(n))
		if c.awaitsHello && received > maxHello {
			return 0, errLongHello
		}
		if received > freeInput {
			c.owner.inputChanged(c)
		}
	}
	return n, err
}

// receive reads what follows the header of the PROXY protocol, if there is one.
func (c *connection) receive(p []byte) (int, error) {
	if c.proxied != nil {
		return c.proxied.receive(c, p)
	}
	return c.TCPConn.Read(p)
}

// resetInput sets the input to 0. It is called when a request or a ClientHello is complete.
func (c *connection) resetInput() {
	if c.input.Swap(0) > freeInput {
		c.owner.inputChanged(c)
	}
}

// resetInputAtRequest resets the input of a connection with each request. Bytes that arrive while
// the handler runs do not count as input: they are the request's body.
func resetInputAtRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := gateway.ConnectionOf(r.Context()).(*connection); ok {
			c.serving.Add(1)
			defer c.serving.Add(-1)
			c.resetInput()
		}
		next.ServeHTTP(w, r)
	})
}

// resetInputAtHello returns a copy of a TLS configuration. The copy resets the input of a
// connection when the ClientHello has arrived.
func resetInputAtHello(config *tls.Config) *tls.Config {
	current := config.GetConfigForClient
	resetting := config.Clone()
	resetting.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if c, ok := hello.Conn.(*connection); ok {
			c.awaitsHello = false
			c.resetInput()
		}
		return current(hello)
	}
	return resetting
}

// inputChanged updates the sum of all input after the input of a connection changed. Past the limit
// it closes the connections whose input began first.
func (s *connectionSet) inputChanged(c *connection) {
	for _, removed := range s.countAndRemove(c) {
		s.incomplete.Add(1)
		_ = removed.TCPConn.Close()
	}
}

// countAndRemove is the part of inputChanged that needs the lock. It returns the connections to
// close.
func (s *connectionSet) countAndRemove(c *connection) []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updateInput(c)
	if s.input <= s.maxInput {
		return nil
	}
	var counted []*connection
	for other := range s.open {
		if other.countedInput > 0 {
			counted = append(counted, other)
		}
	}
	slices.SortFunc(counted, func(a, b *connection) int { return cmp.Compare(a.inputNumber, b.inputNumber) })
	for i, oldest := range counted {
		if s.input <= s.maxInput-s.maxInput/8 { // below the limit, so that not each further byte needs a search
			return counted[:i]
		}
		s.remove(oldest)
	}
	return counted
}

// updateInput replaces a connection's part of the sum. The part of a closed connection is 0. The
// caller holds s.mu.
func (s *connectionSet) updateInput(c *connection) {
	var counted int64
	if _, open := s.open[c]; open {
		counted = max(0, c.input.Load()-freeInput)
	}
	if c.countedInput == 0 && counted > 0 {
		s.lastInputNumber++
		c.inputNumber = s.lastInputNumber
	}
	s.input += counted - c.countedInput
	c.countedInput = counted
}

// remove removes a connection from the set. The caller holds s.mu.
func (s *connectionSet) remove(c *connection) {
	delete(s.open, c)
	s.updateInput(c)
}

// inputStats returns the input of all connections, its limit, and how many connections were closed
// because of the limit.
func (s *connectionSet) inputStats() (current, limit int, closed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.input), int(s.maxInput), s.incomplete.Load()
}
