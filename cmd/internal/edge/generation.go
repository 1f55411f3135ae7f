package edge

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A generation is the http.Server of a server's connections under certain bounds. It is a listener to that http.Server, whose
// connections come from the server's own.
type generation struct {
	server *server
	bounds bounds
	http   *http.Server

	arrivals chan arrival // without room: what was sent has been accepted
	closed   chan struct{}
	close    sync.Once

	open     atomic.Int64 // connections, those that are being handed over among them
	replaced atomic.Bool  // another generation has the new connections
	ended    atomic.Bool  // it takes none any more
}

// An arrival is what accepting brought.
type arrival struct {
	conn net.Conn
	err  error
}

var _ net.Listener = (*generation)(nil)

func (s *server) newGeneration(b bounds) *generation {
	g := &generation{server: s, bounds: b, arrivals: make(chan arrival), closed: make(chan struct{})}
	g.http = &http.Server{
		Handler:                      closeUnread(g.sayGoodbye(s.handler), b.bodyTimeout),
		ReadHeaderTimeout:            b.readHeaderTimeout,
		WriteTimeout:                 b.writeTimeout,
		IdleTimeout:                  b.idleTimeout,
		MaxHeaderBytes:               b.maxHeaderBytes,
		HTTP2:                        b.http2(),
		DisableGeneralOptionsHandler: true, // OPTIONS * is answered in the contract's shape as well
		ConnContext:                  connectionContext,
		ConnState:                    g.count,
		ErrorLog:                     slog.NewLogLogger(s.errors, slog.LevelWarn),
	}
	return g
}

// serve serves what arrives until the generation is replaced or shut down.
func (g *generation) serve() error {
	err := g.http.Serve(g)
	g.ended.Store(true)
	if g.open.Load() == 0 {
		g.server.forget(g)
	}
	if g.replaced.Load() || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	_ = g.server.stop() // nobody takes connections any more
	_ = g.server.generation().Close()
	return err
}

// tellAgain is how often connections are told that the generation ends.
const tellAgain = time.Second

// shutDown closes connections without a request and waits for the others until ctx ends. An http.Server tells its HTTP/2
// connections once that it ends; one whose handshake was under way then would stay for its idle time, so it is told again.
func (g *generation) shutDown(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, tellAgain)
		err := g.http.Shutdown(attempt)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// take returns false when the generation takes nothing any more.
func (g *generation) take(a arrival) bool {
	if a.conn != nil {
		g.open.Add(1)
	}
	select {
	case g.arrivals <- a:
		return true
	case <-g.closed:
		if a.conn != nil {
			g.release()
		}
		return false
	}
}

// count notes the end of connections.
func (g *generation) count(_ net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		g.release()
	}
}

// release notes the end of one connection.
func (g *generation) release() {
	if g.open.Add(-1) == 0 && g.ended.Load() {
		g.server.forget(g)
	}
}

func (g *generation) sayGoodbye(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.server.leaving.Load() || g.replaced.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Accept implements [net.Listener].
func (g *generation) Accept() (net.Conn, error) {
	select {
	case a := <-g.arrivals:
		return a.conn, a.err
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (g *generation) Close() error {
	g.close.Do(func() { close(g.closed) })
	return nil
}

// Addr implements [net.Listener].
func (g *generation) Addr() net.Addr { return g.server.listener.Addr() }
