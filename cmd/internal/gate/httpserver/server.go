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
	Bound   *net.TCPListener // from systemd, on Address; nil to bind Address
	TLS     *tls.Config      // with GetConfigForClient; nil for plain HTTP
	// ProxiedFrom are the networks of the peers that must send a header of the PROXY protocol
	// before TLS or HTTP. Other peers must not send one.
	ProxiedFrom []netip.Prefix
	Limits      Limits
	Errors      slog.Handler // for errors of connections; it must limit its lines itself
	// Registerer registers the metrics of the connections, whose names start with MetricPrefix.
	Registerer   prometheus.Registerer
	MetricPrefix string
}

// Limits limit the resources that clients can use. They include all that net/http does not limit by
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

// A Server is a listener with its connections, and the http.Server that serves them.
type Server struct {
	name        string
	listener    *listener
	http        *http.Server
	bodyTimeout time.Duration

	draining          atomic.Bool
	unusedConnections atomic.Int64  // number of connections whose first request has not arrived
	acceptEnded       chan struct{} // closed when no more connections are accepted
}

// Listen returns a Server with a bound listener. Connections wait in the listener's queue until
// [Server.Serve] is called.
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
		ConnState:                    s.trackUnused,
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
// the maximum was reached.
func (s *Server) Connections() (open, limit int, closed uint64) {
	set := s.listener.connections
	return set.count(), int(set.limit.Load()), set.refused.Load() + set.evicted.Load()
}

// Input returns the bytes of incomplete headers and handshakes of all connections, the maximum, and
// how many connections were closed because the maximum was exceeded.
func (s *Server) Input() (current, limit int, closed uint64) {
	return s.listener.connections.inputStats()
}

// Close closes the listener, for callers that do not call Serve. It returns nil if the listener is
// already closed.
func (s *Server) Close() error {
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Serve handles the requests of the listener until ShutDown is called, and then returns nil. It may
// be called once.
func (s *Server) Serve(handler http.Handler) error {
	defer close(s.acceptEnded)
	s.http.Handler = resetInputAtRequest(closeAfterUnreadBody(s.closeWhileDraining(handler), s.bodyTimeout))
	if err := s.http.Serve(s.listener); !errors.Is(err, errStopped) {
		return fmt.Errorf("serve on the %s listener: %w", s.name, err)
	}
	return nil
}

// closeWhileDraining sends Connection: close with each response while the server drains. Without
// this header, the client's next request may be on its way when the server closes the connection,
// and would fail.
func (s *Server) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
			if c, ok := gateway.ConnectionOf(r.Context()).(*connection); ok {
				s.markUsed(c)
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
	// acceptGrace is how long ShutDown still accepts connections before it closes the listener. The
	// close resets connections that are still in the accept queue of the kernel.
	acceptGrace = 50 * time.Millisecond
	// shutdownRetry is the interval between calls of http.Server.Shutdown. Each call sends GOAWAY
	// to the existing HTTP/2 connections, but not to connections in a TLS handshake, which need
	// another call.
	shutdownRetry = time.Second
)

// ShutDown accepts no more connections, waits for the requests in flight until ctx ends, and cuts
// off the requests that remain. It blocks until Serve has returned.
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
