package httpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/gateway"
)

// A connectionSet is the set of open connections of a listener, up to a limit. At the limit a new
// connection replaces the one that has gone longest without an authenticated request, even if it is
// in a handshake or downloads documentation. Connections that serve an authenticated request are
// exempt; if all do, the new one is closed. A request that starts while its connection is being
// evicted fails, as it would at the end of an idle timeout.
type connectionSet struct {
	limit            atomic.Int64
	maxInput         int64
	logf             func(format string, args ...any) // an error of a connection
	refused, evicted atomic.Uint64
	incomplete       atomic.Uint64 // closed because of maxInput

	mu    sync.Mutex // locked when connections open and close, and for input above freeInput
	open  map[*connection]struct{}
	idle  idleOrder // the mutex guards its candidates
	input int64     // sum of the connections' countedInput

	lastInputNumber uint64 // of the connection whose input began to count last

	buffers sync.Pool // of *bytes.Buffer, for WriteAtOnce
}

// A connection is one open TCP connection.
type connection struct {
	*net.TCPConn

	owner                 *connectionSet
	authenticatedRequests atomic.Int64  // in flight
	idleSince             atomic.Uint64 // number of the event with which it became idle, see idleOrder

	awaitsFirstRequest atomic.Bool // see Server.trackFirstRequest

	serving     atomic.Int32 // requests in the handler
	input       atomic.Int64 // bytes received since the last request reached the handler
	awaitsHello bool         // the TLS ClientHello has not arrived; used by the goroutine that reads

	proxied  *proxied      // nil if the connection begins with HTTP or TLS
	gathered *bytes.Buffer // while WriteAtOnce runs; used by the goroutine that writes

	// Guarded by the owner's mu.
	countedInput int64  // part of input in the sum of the owner
	inputNumber  uint64 // from the owner's lastInputNumber, when its input began to count
}

var _ gateway.Connection = (*connection)(nil)

func newConnectionSet(limit int, maxInput int64) *connectionSet {
	s := &connectionSet{maxInput: maxInput, open: make(map[*connection]struct{})}
	s.buffers.New = func() any { return new(bytes.Buffer) }
	s.limit.Store(int64(limit))
	return s
}

// register registers metrics whose names start with the prefix.
func (s *connectionSet) register(registry prometheus.Registerer, prefix string) error {
	var errs []error
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "_connections_open", Help: "Open connections of clients.",
		}, func() float64 { return float64(s.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "_connections_limit", Help: "Maximum of open connections.",
		}, func() float64 { return float64(s.limit.Load()) }),
		closedCounter(prefix, "refused", &s.refused), closedCounter(prefix, "evicted", &s.evicted),
		closedCounter(prefix, "incomplete", &s.incomplete),
	} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register metrics of connections: %w", err)
	}
	return nil
}

func closedCounter(prefix, cause string, count *atomic.Uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: prefix + "_connections_shed_total",
		Help: "Connections closed at a limit. evicted: for a new one; refused: new ones, as all served an " +
			"authenticated request; incomplete: parts of headers were too large together.",
		ConstLabels: prometheus.Labels{"cause": cause},
	}, func() float64 { return float64(count.Load()) })
}

func (s *connectionSet) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// add adds an accepted connection. If all others are exempt from eviction at the limit, it closes
// the connection and returns nil.
func (s *connectionSet) add(conn *net.TCPConn) *connection {
	c := &connection{TCPConn: conn, owner: s}
	s.idle.add(c)
	added, evicted := s.addOrReplace(c)
	if evicted != nil {
		s.evicted.Add(1)
		_ = evicted.TCPConn.Close()
	}
	if !added {
		s.refused.Add(1)
		_ = conn.Close()
		return nil
	}
	return c
}

// addOrReplace adds a connection below the limit. At the limit it replaces another one, which it
// returns for the caller to close.
func (s *connectionSet) addOrReplace(c *connection) (added bool, evicted *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= int(s.limit.Load()) {
		if evicted = s.idle.first(s.open); evicted == nil {
			return false, nil
		}
		s.remove(evicted)
	}
	s.open[c] = struct{}{}
	return true, evicted
}

// MarkBusy implements [gateway.Connection].
func (c *connection) MarkBusy() { c.authenticatedRequests.Add(1) }

// MarkIdle implements [gateway.Connection].
func (c *connection) MarkIdle() {
	c.owner.idle.add(c)
	c.authenticatedRequests.Add(-1)
}

// stalledWrite is the time that is left to a write in progress on an HTTP/2 connection when a
// response on it is cut off.
const stalledWrite = 100 * time.Millisecond

// CutOff implements [responses.Connection]. It closes a connection with a TCP reset, so that the
// kernel drops what it has buffered.
//
// On an HTTP/2 connection with authenticated requests, the caller resets the stream. Its reset
// waits for a write in progress, so that gets a short deadline: when it fails, net/http closes the
// connection. Before the next write, net/http sets a deadline of its own.
func (c *connection) CutOff(http2 bool) (closed bool) {
	if http2 && !c.isIdle() {
		_ = c.SetWriteDeadline(time.Now().Add(stalledWrite))
		return false
	}
	_ = c.SetLinger(0)
	_ = c.Close()
	return true
}

// Write implements [net.Conn].
func (c *connection) Write(p []byte) (int, error) {
	if c.gathered != nil {
		return c.gathered.Write(p)
	}
	return c.TCPConn.Write(p)
}

// WriteAtOnce implements [responses.Connection]. It buffers what net/http writes, and sends it with
// one write. If the write fails, it closes the connection itself: net/http, whose writes to the
// buffer succeeded, has seen no error.
func (c *connection) WriteAtOnce(write func() error) error {
	buffer, _ := c.owner.buffers.Get().(*bytes.Buffer)
	c.gathered = buffer
	err := write()
	c.gathered = nil
	if err == nil {
		_, err = c.TCPConn.Write(buffer.Bytes())
	}
	if err != nil {
		_ = c.Close()
	}
	buffer.Reset()
	c.owner.buffers.Put(buffer)
	return err
}

// Close closes the connection and removes it from the set.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	c.owner.remove(c)
	c.owner.mu.Unlock()
	return c.TCPConn.Close()
}

// connectionContext adds a connection to the context of its requests ([http.Server.ConnContext]).
// Authenticated requests mark it busy.
func connectionContext(ctx context.Context, conn net.Conn) context.Context {
	if c := underlying(conn); c != nil {
		return gateway.WithConnection(ctx, c)
	}
	return ctx
}

// underlying returns the TCP connection, which may be below TLS, or nil if it was not accepted by a
// listener of this package.
func underlying(conn net.Conn) *connection {
	if tlsConn, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = tlsConn.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// Hold exempts the connection of a request from eviction until release is called.
func Hold(ctx context.Context) (release func()) {
	if c := gateway.MarkBusy(ctx); c != nil {
		return c.MarkIdle
	}
	return func() {}
}
