package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"opsgate/cmd/internal/config"
)

// Bounds of the admin listener. Answers may take long there: a profile is taken for as long as its caller asks.
const (
	adminReadTimeout    = 10 * time.Second
	adminWriteTimeout   = 5 * time.Minute
	adminIdleTimeout    = 2 * time.Minute
	adminMaxHeaderBytes = 16 << 10
	adminMaxConnections = 256 // probes, scrapes and the operators of an incident need few
)

// bounds are those of a connection to the public listener. What net/http leaves unbounded by default has a bound here.
type bounds struct {
	readHeaderTimeout, writeTimeout, idleTimeout time.Duration
	bodyTimeout                                  time.Duration // 0 where the handler bounds each body itself
	maxHeaderBytes, maxStreams                   int
}

// headerSlack is by how much more net/http takes over HTTP/1.1 than it is told.
const headerSlack = 4 << 10

// boundsOf has twice as much of a header read as may be sent, so that whoever sends a little too much reads our own answer.
func boundsOf(c config.HTTP) bounds {
	return bounds{
		readHeaderTimeout: time.Duration(c.ReadHeaderTimeout),
		writeTimeout:      time.Duration(c.WriteTimeout),
		idleTimeout:       time.Duration(c.IdleTimeout),
		maxHeaderBytes:    2*int(c.MaxHeaderBytes) - headerSlack,
		maxStreams:        c.HTTP2.MaxConcurrentStreams,
	}
}

// adminBounds are those of a connection of an operator.
func adminBounds() bounds {
	return bounds{
		readHeaderTimeout: adminReadTimeout,
		bodyTimeout:       adminReadTimeout,
		writeTimeout:      adminWriteTimeout,
		idleTimeout:       adminIdleTimeout,
		maxHeaderBytes:    adminMaxHeaderBytes,
	}
}

// serverOptions are what a server is made of.
type serverOptions struct {
	name, address string
	tls           *tls.Config // nil for none
	connections   *connections
	handler       http.Handler
	bounds        bounds
	errors        slog.Handler // of connections, bounded in its lines
}

// A server is a listener and the HTTP servers that serve its connections: one for each change of bounds, as those of an
// http.Server must not change while it serves. New connections are given to the current one. The others end with their last
// connection.
type server struct {
	serverOptions

	listener *net.TCPListener
	leaving  atomic.Bool
	tasks    errgroup.Group
	accepted chan struct{} // closed when no more connections are accepted

	mu       sync.Mutex
	current  *generation
	old      map[*generation]struct{} // that still have connections
	serving  bool
	stopping bool
}

// newServer binds a server's listener.
func newServer(ctx context.Context, o serverOptions) (*server, error) {
	var listening net.ListenConfig
	bound, err := listening.Listen(ctx, "tcp", o.address)
	if err != nil {
		return nil, fmt.Errorf("bind the %s listener: %w", o.name, err)
	}
	listener, _ := bound.(*net.TCPListener) // what listens at TCP is nothing else
	s := &server{serverOptions: o, listener: listener, accepted: make(chan struct{}), old: make(map[*generation]struct{})}
	s.current = s.newGeneration(o.bounds)
	return s, nil
}

// serve answers until the server is shut down.
func (s *server) serve() error {
	s.mu.Lock()
	s.serving = true
	s.tasks.Go(s.accept)
	s.tasks.Go(s.current.serve)
	s.mu.Unlock()
	if err := s.tasks.Wait(); err != nil {
		return fmt.Errorf("serve on the %s listener: %w", s.name, err)
	}
	return nil
}

// accept gives each connection to the generation that is current then, and errors too: net/http knows which ones pass.
func (s *server) accept() error {
	defer close(s.accepted)
	defer func() { _ = s.listener.Close() }()
	for {
		conn, err := s.listener.AcceptTCP()
		switch {
		case err != nil && s.isStopping():
			return nil
		case err != nil:
			if !s.hand(arrival{err: err}) {
				return nil
			}
		case !s.receive(conn):
			return nil
		}
	}
}

// maxUnsent bounds what the kernel holds of answers that the client of one connection does not read. By default it takes megabytes of
// each. The kernel doubles the number for its own use.
const maxUnsent = 128 << 10

// receive takes in a connection if there is room for it. It returns false when nobody serves any more.
func (s *server) receive(accepted *net.TCPConn) bool {
	added := s.connections.add(accepted)
	if added == nil {
		return true
	}
	_ = accepted.SetWriteBuffer(maxUnsent) // fails where the client is gone
	var conn net.Conn = added
	if s.tls != nil {
		conn = tls.Server(conn, s.tls) // the handshake is the http.Server's, and takes its readHeaderTimeout at most
	}
	return s.hand(arrival{conn: conn})
}

func (s *server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// hand gives what arrived to the current generation. It returns false when that serves no more.
func (s *server) hand(a arrival) bool {
	for {
		g := s.generation()
		if g.take(a) {
			return true
		}
		if s.generation() == g {
			if a.conn != nil {
				_ = a.conn.Close()
			}
			return false
		}
	}
}

func (s *server) generation() *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// use has new connections served under the bounds. Those that there are keep theirs, and are told to end with their next answer.
func (s *server) use(b bounds) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || b == s.current.bounds {
		return
	}
	last := s.current
	s.current = s.newGeneration(b)
	if !s.serving {
		return
	}
	s.tasks.Go(s.current.serve) // accept still goes on, so nobody is done waiting for the tasks
	s.old[last] = struct{}{}
	last.replaced.Store(true)
	_ = last.Close()
}

// forget forgets a generation that has no connections and will have none.
func (s *server) forget(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.old, g)
}

// leave has each connection end with its next answer, which says so. A connection that ends unannounced may end in the very
// moment in which a client sends its next request, and that request fails.
func (s *server) leave() { s.leaving.Store(true) }

// lastCall is for how long connections are still accepted when the listener is to be closed. The kernel takes connections in before
// we do, and resets those that we have not come to.
const lastCall = 50 * time.Millisecond

// stop takes no more connections after lastCall.
func (s *server) stop() error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	return s.listener.SetDeadline(time.Now().Add(lastCall))
}

// shutDown takes no more connections and waits for the requests in flight until ctx ends; then it cuts them off. It needs serve.
func (s *server) shutDown(ctx context.Context) error {
	_ = s.stop() // it fails where the listener is closed already
	<-s.accepted // whoever was accepted is served
	s.mu.Lock()
	all := append(slices.Collect(maps.Keys(s.old)), s.current)
	s.mu.Unlock()
	errs := make([]error, len(all))
	var ending sync.WaitGroup
	for i, g := range all {
		ending.Go(func() {
			if err := g.shutDown(ctx); err != nil {
				errs[i] = errors.Join(err, g.http.Close())
			}
		})
	}
	ending.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("requests on the %s listener were cut off: %w", s.name, err)
	}
	return nil
}
