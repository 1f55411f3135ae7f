package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/gateway"
)

// searchFraction is the part of the connections that one search for the longest waiting returns, so that few new connections need one.
const searchFraction = 16

// connections are those that clients have open, up to a limit. At the limit a new one replaces the one that has gone longest without an
// authenticated request: idle ones, handshakes, headers and bodies that do not arrive, requests without a valid token and downloads of
// documentation are all alike. Connections that serve an authenticated request are exempt; if all do, the new one is closed. A request that
// begins in the instant in which its connection is closed is lost, as at the end of an idle time-out.
//
// The order is of sequence numbers, given when a connection is opened and when its authenticated requests end. So no request reads a
// clock or takes a lock, and no anonymous request makes a connection younger.
type connections struct {
	limit            atomic.Int64
	sequence         atomic.Uint64
	refused, evicted atomic.Uint64

	mu         sync.Mutex // taken when connections are opened and closed, not for requests
	open       map[*connection]struct{}
	candidates []candidate // for eviction, the longest waiting last
}

// A connection is one of the connections.
type connection struct {
	*net.TCPConn

	owner    *connections
	requests atomic.Int64  // authenticated ones in progress
	since    atomic.Uint64 // sequence number of when it was opened, or its last authenticated request ended
}

var _ gateway.Connection = (*connection)(nil)

// A candidate is a connection that waited when it was looked at.
type candidate struct {
	*connection
	since uint64
}

// newConnections returns connections up to a limit, with metrics whose names begin as given.
func newConnections(limit int, metrics string, registry prometheus.Registerer) (*connections, error) {
	l := &connections{open: make(map[*connection]struct{})}
	l.limit.Store(int64(limit))
	var errs []error
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: metrics + "_connections_open", Help: "Connections that clients have open.",
		}, func() float64 { return float64(l.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: metrics + "_connections_limit", Help: "How many connections may be open.",
		}, func() float64 { return float64(l.limit.Load()) }),
		closedFor(metrics, "refused", &l.refused), closedFor(metrics, "displaced", &l.evicted),
	} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the metrics of connections: %w", err)
	}
	return l, nil
}

func closedFor(metrics, cause string, count *atomic.Uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: metrics + "_connections_shed_total",
		Help: "Connections closed at the limit, by cause. displaced: those that had gone longest without an authenticated request, for" +
			" new ones; refused: new ones, because all others served an authenticated request.",
		ConstLabels: prometheus.Labels{"cause": cause},
	}, func() float64 { return float64(count.Load()) })
}

// setLimit changes how many may be open. Open ones stay.
func (l *connections) setLimit(limit int) { l.limit.Store(int64(limit)) }

// count returns how many are open.
func (l *connections) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// add takes in a connection that was accepted, or closes it and returns nil.
func (l *connections) add(conn *net.TCPConn) *connection {
	c := &connection{TCPConn: conn, owner: l}
	c.since.Store(l.sequence.Add(1))
	added, evicted := l.replace(c)
	if evicted != nil {
		l.evicted.Add(1)
		_ = evicted.TCPConn.Close()
	}
	if !added {
		l.refused.Add(1)
		_ = conn.Close()
		return nil
	}
	return c
}

// replace adds a connection if there is room for it or another can be evicted, which it returns.
func (l *connections) replace(c *connection) (added bool, evicted *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= int(l.limit.Load()) {
		if evicted = l.longestWaiting(); evicted == nil {
			return false, nil
		}
		delete(l.open, evicted)
	}
	l.open[c] = struct{}{}
	return true, evicted
}

// longestWaiting returns the connection that has gone longest without an authenticated request, or nil where all serve one. One that
// began to wait after the last search is younger than all candidates of that search.
func (l *connections) longestWaiting() *connection {
	for searched := false; ; searched = true {
		for len(l.candidates) > 0 {
			last := l.candidates[len(l.candidates)-1]
			l.candidates = l.candidates[:len(l.candidates)-1]
			if _, open := l.open[last.connection]; open && last.waitsSince() == last.since {
				return last.connection
			}
		}
		if searched {
			return nil
		}
		l.search()
	}
}

// search finds the candidates.
func (l *connections) search() {
	l.candidates = l.candidates[:0]
	for c := range l.open {
		if since := c.waitsSince(); since > 0 {
			l.candidates = append(l.candidates, candidate{c, since})
		}
	}
	slices.SortFunc(l.candidates, func(a, b candidate) int { return cmp.Compare(b.since, a.since) })
	surplus := max(0, len(l.candidates)-1-len(l.open)/searchFraction)
	l.candidates = slices.Delete(l.candidates, 0, surplus)
}

// waitsSince returns the sequence number of when the connection began to wait, or 0 while it serves an authenticated request.
func (c *connection) waitsSince() uint64 {
	since := c.since.Load()
	if c.requests.Load() > 0 {
		return 0
	}
	return since
}

// Acquire implements [gateway.Connection].
func (c *connection) Acquire() { c.requests.Add(1) }

// Release implements [gateway.Connection].
func (c *connection) Release() {
	c.since.Store(c.owner.sequence.Add(1))
	c.requests.Add(-1)
}

// Close closes the connection and makes room for another.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.TCPConn.Close()
}

// connectionContext puts a connection into the context of its requests, which mark it while they are served ([http.Server.ConnContext]).
func connectionContext(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	if c, ok := conn.(*connection); ok {
		return gateway.WithConnection(ctx, c)
	}
	return ctx
}

// holdConnection marks the connection of a request as serving an authenticated one until it is released.
func holdConnection(ctx context.Context) (release func()) {
	if c := gateway.AcquireConnection(ctx); c != nil {
		return c.Release
	}
	return func() {}
}
