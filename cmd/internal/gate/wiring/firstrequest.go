package wiring

import (
	"context"
	"net"
	"net/http"
	"time"

	"opsgate/gateway"
)

const (
	// firstRequestTimeout is how long a shutdown waits for the first requests of connections. Clients also open connections in advance, and
	// these must not use up the grace period. http.Server.Shutdown waits as long for connections without a request.
	firstRequestTimeout = 5 * time.Second
	// firstRequestPoll is the interval at which a shutdown looks for connections without a request.
	firstRequestPoll = 2 * time.Millisecond
)

// trackFirstRequest counts the connections whose first request has not arrived ([http.Server.ConnState]). While the server drains,
// StateActive does not end the count: net/http drops a request that it has read if Shutdown is called before it calls the handler.
func (s *server) trackFirstRequest(conn net.Conn, state http.ConnState) {
	c := underlying(conn)
	switch {
	case c == nil:
	case state == http.StateNew:
		c.unused.Store(true)
		s.unused.Add(1)
	case state != http.StateActive || !s.draining.Load():
		s.used(c)
	}
}

// firstRequestStarted ends the count of a connection whose request has reached the handler.
func (s *server) firstRequestStarted(ctx context.Context) {
	if c, ok := gateway.AcquireConnection(ctx).(*connection); ok {
		s.used(c)
		c.Release()
	}
}

func (s *server) used(c *connection) {
	if c.unused.CompareAndSwap(true, false) {
		s.unused.Add(-1)
	}
}

// awaitFirstRequests waits until each accepted connection has sent a request or has ended, for firstRequestTimeout at most. Without it,
// http.Server.Shutdown closes connections whose first request is on its way, which clients cannot tell from a failure.
func (s *server) awaitFirstRequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstRequestTimeout)
	defer cancel()
	tick := time.NewTicker(firstRequestPoll)
	defer tick.Stop()
	for s.unused.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
