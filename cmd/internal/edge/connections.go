package edge

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// tickEvery is the resolution of the time for which connections are known to have waited: no request reads a clock for it.
	tickEvery = 250 * time.Millisecond
	// minWait is how many ticks a connection waits before it may have to make room: a client may be about to use it.
	minWait = 4
	// makeRoom is the part of the connections that has to go at once, so that not every new one needs a search.
	makeRoom = 16
)

// Connections are those that clients have open, up to a bound. Past it, those that have waited longest without a request make room for
// new ones: idle ones, and such as do not come to the end of a header. Where none has waited for a while, the new one is closed.
type connections struct {
	most               atomic.Int64
	tick               atomic.Int64 // the time, which begins at 1
	refused, displaced atomic.Uint64

	mu       sync.Mutex // taken when connections begin and end, not for requests
	open     map[*connection]struct{}
	searched int64 // tick of the last search for those that wait
}

// A connection is one of the connections.
type connection struct {
	*net.TCPConn

	of    *connections
	waits atomic.Int64 // the tick since when it is without a request; 0 while it has one
}

func newConnections(most int, registry prometheus.Registerer) (*connections, error) {
	l := &connections{open: make(map[*connection]struct{})}
	l.most.Store(int64(most))
	l.tick.Store(1)
	var errs []error
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_http_connections_open", Help: "Connections that clients have open.",
		}, func() float64 { return float64(l.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "opsgate_http_connections_limit", Help: "How many connections may be open.",
		}, func() float64 { return float64(l.most.Load()) }),
		closedFor("refused", &l.refused), closedFor("displaced", &l.displaced),
	} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the metrics of connections: %w", err)
	}
	return l, nil
}

func closedFor(cause string, count *atomic.Uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "opsgate_http_connections_shed_total",
		Help: "Connections that were closed as as many as may be were open, by cause. refused: new ones, as none waited;" +
			" displaced: those that had waited longest, for new ones.",
		ConstLabels: prometheus.Labels{"cause": cause},
	}, func() float64 { return float64(count.Load()) })
}

// bound changes how many may be open. Those that are stay.
func (l *connections) bound(most int) { l.most.Store(int64(most)) }

// count returns how many are open.
func (l *connections) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// run keeps the time until ctx ends.
func (l *connections) run(ctx context.Context) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.tick.Add(1)
		case <-ctx.Done():
			return nil
		}
	}
}

// take takes in a connection that was accepted, or closes it and returns nil.
func (l *connections) take(conn *net.TCPConn) *connection {
	c := &connection{TCPConn: conn, of: l}
	c.waits.Store(l.tick.Load())
	taken, leaving := l.enter(c)
	for _, other := range leaving {
		_ = other.Close()
	}
	l.displaced.Add(uint64(len(leaving)))
	if !taken {
		l.refused.Add(1)
		_ = conn.Close()
		return nil
	}
	return c
}

// enter adds a connection if there is room for it, or by making some. It returns those that have to go.
func (l *connections) enter(c *connection) (taken bool, leaving []*connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= int(l.most.Load()) {
		if leaving = l.longestWaiting(); len(leaving) == 0 {
			return false, nil
		}
		for _, other := range leaving {
			delete(l.open, other)
		}
	}
	l.open[c] = struct{}{}
	return true, leaving
}

// longestWaiting returns connections that wait, the longest first, and looks for them once a tick at most.
func (l *connections) longestWaiting() []*connection {
	now := l.tick.Load()
	if l.searched == now {
		return nil
	}
	l.searched = now
	type waiter struct {
		*connection
		since int64
	}
	var waiters []waiter
	for c := range l.open {
		if since := c.waits.Load(); since > 0 && now-since >= minWait {
			waiters = append(waiters, waiter{c, since})
		}
	}
	slices.SortFunc(waiters, func(a, b waiter) int { return cmp.Compare(a.since, b.since) })
	var longest []*connection
	for _, w := range waiters[:min(len(waiters), 1+len(l.open)/makeRoom)] {
		longest = append(longest, w.connection)
	}
	return longest
}

// Close closes the connection and makes room for another.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.TCPConn.Close()
}

// noteState notes whether a connection of ours has a request.
func noteState(conn net.Conn, state http.ConnState) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	c, ok := conn.(*connection)
	if !ok {
		return // the listener has no bound
	}
	switch state {
	case http.StateActive:
		c.waits.Store(0)
	case http.StateIdle:
		c.waits.Store(c.of.tick.Load())
	case http.StateNew, http.StateHijacked, http.StateClosed:
	}
}
