package httpserver

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// firstRequestTimeout is how long a shutdown waits for the first requests of connections.
	// Clients also open connections in advance, and these must not use up the grace period.
	// http.Server.Shutdown waits as long for connections without a request.
	firstRequestTimeout = 5 * time.Second
	// firstRequestPoll is the interval at which a shutdown looks for connections without a request.
	firstRequestPoll = 2 * time.Millisecond
)

// trackFirstRequest counts the connections whose first request has not arrived
// ([http.Server.ConnState]). Over HTTP/1.1 a request has arrived
//
//   - while the server serves: at StateActive, when net/http has read its header;
//   - while it drains: when its handler starts (closeWhileDraining), as Shutdown may drop it before.
//
// Any state after StateActive, such as StateClosed, also ends the wait for it.
//
// Over HTTP/2, net/http sets StateActive and then StateIdle before any request, when the connection
// is ready. So a drain does not wait for the first request of an HTTP/2 connection. It need not:
// the GOAWAY of Shutdown states which requests were not served, and clients repeat these.
func (s *Server) trackFirstRequest(conn net.Conn, state http.ConnState) {
	c := underlying(conn)
	switch {
	case c == nil:
	case state == http.StateNew:
		c.awaitsFirstRequest.Store(true)
		s.awaitedFirstRequests.Add(1)
	case state != http.StateActive || !s.draining.Load():
		s.firstRequestArrived(c)
	}
}

func (s *Server) firstRequestArrived(c *connection) {
	if c.awaitsFirstRequest.CompareAndSwap(true, false) {
		s.awaitedFirstRequests.Add(-1)
	}
}

// awaitFirstRequests waits until the first request of each accepted connection counts as arrived,
// for firstRequestTimeout at most. Without it, http.Server.Shutdown closes connections whose first
// request is on its way, which clients cannot tell from a failure.
func (s *Server) awaitFirstRequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstRequestTimeout)
	defer cancel()
	tick := time.NewTicker(firstRequestPoll)
	defer tick.Stop()
	for s.awaitedFirstRequests.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
