package httpserver

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// firstRequestTimeout is how long a shutdown waits for the first requests of connections.
	// Clients also open connections in advance, which must not use up the grace period.
	// http.Server.Shutdown closes such connections 5 s after they were opened, so that its wait does
	// not follow this one.
	firstRequestTimeout = 5 * time.Second
	// firstRequestPoll is the interval at which a shutdown looks for unused connections.
	firstRequestPoll = 2 * time.Millisecond
)

// trackUnused counts the unused connections, whose first request has not arrived
// ([http.Server.ConnState]). Over HTTP/1.1 a request has arrived
//
//   - while the server serves: at StateActive, when net/http has read the header;
//   - while the server drains: when closeWhileDraining is called; before that, Shutdown may drop
//     the request.
//
// Any state after StateActive, such as StateClosed, also makes a connection used.
//
// Over HTTP/2, net/http sets StateActive and then StateIdle when the connection is ready, before
// any request. So a drain does not wait for the first request of an HTTP/2 connection. It need not:
// the GOAWAY of Shutdown states which requests were not served, and clients repeat these requests.
func (s *Server) trackUnused(conn net.Conn, state http.ConnState) {
	c := underlying(conn)
	switch {
	case c == nil:
	case state == http.StateNew:
		c.unused.Store(true)
		s.unusedConnections.Add(1)
	case state != http.StateActive || !s.draining.Load():
		s.markUsed(c)
	}
}

// markUsed records that the first request of a connection has arrived. It is idempotent.
func (s *Server) markUsed(c *connection) {
	if c.unused.CompareAndSwap(true, false) {
		s.unusedConnections.Add(-1)
	}
}

// awaitFirstRequests waits until no accepted connection is unused, for at most firstRequestTimeout.
// Without this wait, http.Server.Shutdown would close connections whose first request is on its
// way, which clients cannot distinguish from a failure.
func (s *Server) awaitFirstRequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstRequestTimeout)
	defer cancel()
	tick := time.NewTicker(firstRequestPoll)
	defer tick.Stop()
	for s.unusedConnections.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
