package httpserver

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"

	"opsgate/gateway"
)

// The input of a connection is what it has received since its last request reached the handler: a
// part of a handshake or of a header. net/http keeps a header of many short fields in up to twenty
// times its bytes, and crypto/tls buffers handshake messages of up to 64 KiB, also between
// requests. So the input of all connections together has a limit, past which the connections whose
// input began first are closed.
const (
	// freeInput is the part of the input of each connection that does not count: the end of a
	// handshake, and settings and PINGs of HTTP/2, which are not kept. Most headers are smaller
	// too, so few requests take the lock of the set.
	freeInput = 1 << 10
	// maxHello is the maximum size of a TLS ClientHello, which has 2 KiB with keys for post-quantum
	// cryptography. crypto/tls keeps a buffer of its size as long as the connection is open.
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

// resetInput sets the input to 0, when it is complete: a request or a handshake.
func (c *connection) resetInput() {
	if c.input.Swap(0) > freeInput {
		c.owner.inputChanged(c)
	}
}

// resetInputAtRequest resets the input of a connection with each request. While the handler runs,
// the bytes that arrive are a body.
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

// resetInputAtHello returns a copy of a configuration that resets the input of a connection when
// its ClientHello has arrived.
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

// inputChanged counts the changed input of a connection. Past the limit of all input it closes the
// connections whose input began first.
func (s *connectionSet) inputChanged(c *connection) {
	for _, removed := range s.countAndRemove(c) {
		s.incomplete.Add(1)
		_ = removed.TCPConn.Close()
	}
}

// countAndRemove does the part of inputChanged that needs the lock: it returns the connections to
// be closed.
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

// updateInput replaces the part of a connection in the sum; a closed connection has none. The caller
// holds s.mu.
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
// past it.
func (s *connectionSet) inputStats() (current, limit int, closed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.input), int(s.maxInput), s.incomplete.Load()
}
