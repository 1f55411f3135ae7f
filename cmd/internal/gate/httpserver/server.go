package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/gateway"
)

// Options are the options of [Listen]. All are required except Bound, TLS and ProxiedFrom.
type Options struct {
	Name    string           // in errors
	Address string           // of the listener
	Bound   *net.TCPListener // from systemd, on Address; nil to bind it
	TLS     *tls.Config      // with GetConfigForClient; nil for plain HTTP
	// ProxiedFrom are the networks of peers that send a header of the PROXY protocol before TLS or
	// HTTP. They must send one, and others must not.
	ProxiedFrom []netip.Prefix
	Limits      Limits
	Errors      slog.Handler // for errors of connections; it limits its lines
	// Registerer registers the metrics of the connections, whose names start with MetricPrefix.
	Registerer   prometheus.Registerer
	MetricPrefix string
}

// Limits limit what clients can occupy. They include everything that net/http leaves unlimited by
// default.
type Limits struct {
	Connections int
	// Input is the maximum number of bytes of incomplete headers and handshakes of all connections.
	Input int64

	// The maximum times of one connection.
	HeaderTimeout, WriteTimeout, IdleTimeout time.Duration
	BodyTimeout                              time.Duration // 0 if the handler sets it for each request
	// HeaderBytes is the maximum size of a header over HTTP/1.1; a larger one gets 431.
	HeaderBytes int
}

// headerSlack is what net/http adds to MaxHeaderBytes over HTTP/1.1.
const headerSlack = 4 << 10

// A Server is a listener with its connections, and the http.Server on it.
type Server struct {
	name        string
	listener    *listener
	http        *http.Server
	bodyTimeout time.Duration

	draining             atomic.Bool
	awaitedFirstRequests atomic.Int64  // number of connections whose first request has not arrived
	acceptEnded          chan struct{} // closed when no more connections are accepted
}

// Listen binds a listener, unless it is bound. Connections wait in its queue until [Server.Serve]
// is called.
func Listen(ctx context.Context, o Options) (*Server, error) {
	set := newConnectionSet(o.Limits.Connections, o.Limits.Input)
	if err := set.register(o.Registerer, o.MetricPrefix); err != nil {
		return nil, err
	}
	tcp, err := bind(ctx, o.Address, o.Bound)
	if err != nil {
		return nil, fmt.Errorf("bind the %s listener: %w", o.Name, err)
	}
	if o.TLS != nil {
		o.TLS = resetInputAtHello(o.TLS)
	}
	s := &Server{
		name:        o.Name,
		listener:    &listener{TCPListener: tcp, connections: set, tls: o.TLS, proxiedFrom: o.ProxiedFrom},
		bodyTimeout: o.Limits.BodyTimeout,
		acceptEnded: make(chan struct{}),
	}
	s.http = &http.Server{
		ReadHeaderTimeout:            o.Limits.HeaderTimeout,
		WriteTimeout:                 o.Limits.WriteTimeout,
		IdleTimeout:                  o.Limits.IdleTimeout,
		MaxHeaderBytes:               o.Limits.HeaderBytes - headerSlack,
		HTTP2:                        o.Limits.http2(),
		DisableGeneralOptionsHandler: true, // the gateway answers OPTIONS * too
		ConnContext:                  connectionContext,
		ConnState:                    s.trackFirstRequest,
		ErrorLog:                     slog.NewLogLogger(o.Errors, slog.LevelWarn),
	}
	set.logf = s.http.ErrorLog.Printf
	return s, nil
}

// Addr returns the address of the listener, with the port in use.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// SetMaxConnections changes the maximum number of connections. It closes none.
func (s *Server) SetMaxConnections(limit int) { s.listener.connections.limit.Store(int64(limit)) }

// Connections returns the number of open connections, the maximum, and how many were closed because
// of it.
func (s *Server) Connections() (open, limit int, closed uint64) {
	set := s.listener.connections
	return set.count(), int(set.limit.Load()), set.refused.Load() + set.evicted.Load()
}

// Input returns the bytes of incomplete headers and handshakes of all connections, the maximum, and
// how many connections were closed because of it.
func (s *Server) Input() (current, limit int, closed uint64) {
	return s.listener.connections.inputStats()
}

// Close closes the listener. It is for callers that do not call Serve; it returns nil if the
// listener is closed already.
func (s *Server) Close() error {
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Serve handles the requests of the listener until ShutDown is called; then it returns nil. It may
// be called once.
func (s *Server) Serve(handler http.Handler) error {
	defer close(s.acceptEnded)
	s.http.Handler = resetInputAtRequest(closeAfterUnreadBody(s.closeWhileDraining(handler), s.bodyTimeout))
	if err := s.http.Serve(s.listener); !errors.Is(err, errStopped) {
		return fmt.Errorf("serve on the %s listener: %w", s.name, err)
	}
	return nil
}

// closeWhileDraining sends Connection: close with each response while the server drains. A
// connection that is closed without it can have the next request of its client on the way, which
// would fail.
func (s *Server) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
			if c, ok := gateway.ConnectionOf(r.Context()).(*connection); ok {
				s.firstRequestArrived(c)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Drain closes each connection with its next response from now on.
func (s *Server) Drain() { s.draining.Store(true) }

// Draining reports whether Drain was called.
func (s *Server) Draining() bool { return s.draining.Load() }

const (
	// acceptGrace is how long a listener that closes still accepts connections: closing it resets
	// connections in the accept queue of the kernel.
	acceptGrace = 50 * time.Millisecond
	// shutdownRetry is the interval between calls of http.Server.Shutdown. Each call sends GOAWAY
	// to the HTTP/2 connections that exist, but not to connections whose TLS handshake is in
	// progress.
	shutdownRetry = time.Second
)

// ShutDown accepts no more connections, waits for the requests in flight until ctx ends, and cuts
// off those that remain. It blocks until Serve has returned.
func (s *Server) ShutDown(ctx context.Context) error {
	_ = s.listener.SetDeadline(time.Now().Add(acceptGrace)) // fails if the listener is closed
	<-s.acceptEnded
	s.awaitFirstRequests(ctx)
	for {
		attemptCtx, cancel := context.WithTimeout(ctx, shutdownRetry)
		err := s.http.Shutdown(attemptCtx)
		cancel()
		if err == nil {
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return fmt.Errorf("requests on the %s listener were cut off: %w", s.name, errors.Join(err, s.http.Close()))
		}
	}
}
