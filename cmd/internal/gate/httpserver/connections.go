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

// A connectionSet is the set of open connections of a listener, up to a limit. A connection is busy
// while it serves an authenticated request, and otherwise idle, even in a handshake or during a
// download of documentation. At the limit, a new connection evicts the connection that has been
// idle for the longest time. If all connections are busy, the new one is closed. A request that
// starts while its connection is being evicted fails, as it would at the end of an idle timeout.
type connectionSet struct {
	limit            atomic.Int64
	maxInput         int64
	logf             func(format string, args ...any) // logs an error of a connection
	refused, evicted atomic.Uint64
	incomplete       atomic.Uint64 // closed because of maxInput

	mu    sync.Mutex // locked when a connection opens or closes, and when it reads input above freeInput
	open  map[*connection]struct{}
	idle  idleOrder // mu guards its candidates
	input int64     // sum of the connections' countedInput

	lastInputNumber uint64 // the highest inputNumber of a connection

	buffers sync.Pool // of *bytes.Buffer, for WriteAtOnce
}

// A connection is one open TCP connection.
type connection struct {
	*net.TCPConn

	owner        *connectionSet
	busyRequests atomic.Int64  // authenticated requests in flight
	idleSince    atomic.Uint64 // number of the event by which the connection became idle, see idleOrder

	unused atomic.Bool // its first request has not arrived, see Server.trackUnused

	serving     atomic.Int32 // requests in the handler
	input       atomic.Int64 // bytes received since the last request reached the handler
	awaitsHello bool         // the TLS ClientHello has not arrived; used by the goroutine that reads

	proxied  *proxied      // nil if the connection begins with HTTP or TLS
	gathered *bytes.Buffer // while WriteAtOnce runs; used by the goroutine that writes

	// Guarded by the owner's mu.
	countedInput int64  // part of input that the owner's sum includes
	inputNumber  uint64 // orders connections by when their input began to count
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

// add adds an accepted connection. If the limit is reached and all others are busy, it closes the
// connection and returns nil.
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

// addOrReplace adds a connection. At the limit it evicts another connection, which the caller must
// close, or adds none if all are busy.
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
func (c *connection) MarkBusy() { c.busyRequests.Add(1) }

// MarkIdle implements [gateway.Connection].
func (c *connection) MarkIdle() {
	c.owner.idle.add(c)
	c.busyRequests.Add(-1)
}

// stalledWrite is the remaining time for a write in progress on an HTTP/2 connection when one of
// its responses is cut off.
const stalledWrite = 100 * time.Millisecond

// CutOff implements [responses.Connection]. It closes a connection with a TCP reset, so that the
// kernel drops what it has buffered.
//
// On a busy HTTP/2 connection, the caller resets the stream. The reset waits for a write in
// progress, so CutOff gives that write a short deadline. If the write fails, net/http closes the
// connection; otherwise net/http sets another deadline before its next write.
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

// WriteAtOnce implements [responses.Connection]. It buffers what net/http writes, and sends the
// buffer with one write. If that write fails, WriteAtOnce closes the connection: net/http does not,
// because its writes to the buffer succeeded.
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
// Authenticated requests mark the connection as busy.
func connectionContext(ctx context.Context, conn net.Conn) context.Context {
	if c := underlying(conn); c != nil {
		return gateway.WithConnection(ctx, c)
	}
	return ctx
}

// underlying returns the connection of this package, which may be below TLS, or nil if another
// listener accepted it.
func underlying(conn net.Conn) *connection {
	if tlsConn, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = tlsConn.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// MarkBusy marks the connection of a request as busy until markIdle is called.
func MarkBusy(ctx context.Context) (markIdle func()) {
	if c := gateway.MarkBusy(ctx); c != nil {
		return c.MarkIdle
	}
	return func() {}
}
