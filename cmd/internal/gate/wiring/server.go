package wiring

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"opsgate/cmd/internal/gate/config"
)

// Limits of the admin listener. A response may take long there: a profile lasts as long as the operator requests.
const (
	adminReadTimeout    = 10 * time.Second
	adminWriteTimeout   = 5 * time.Minute
	adminIdleTimeout    = 2 * time.Minute
	adminMaxHeaderBytes = 16 << 10
	adminMaxConnections = 256 // enough for probes, scrapes and operators
)

// connectionLimits are the limits of each connection to a listener. They set everything that net/http leaves unlimited by default.
type connectionLimits struct {
	readHeaderTimeout, writeTimeout, idleTimeout time.Duration
	bodyTimeout                                  time.Duration // 0 if the handler sets it for each request
	maxHeaderBytes                               int
}

// headerSlack is what net/http adds to MaxHeaderBytes over HTTP/1.1.
const headerSlack = 4 << 10

// publicLimits makes net/http read headers of up to twice the configured size, so that the gateway itself answers 431 to most headers above
// the configured size.
func publicLimits(c config.HTTP) connectionLimits {
	return connectionLimits{
		readHeaderTimeout: time.Duration(c.ReadHeaderTimeout),
		writeTimeout:      time.Duration(c.WriteTimeout),
		idleTimeout:       time.Duration(c.IdleTimeout),
		maxHeaderBytes:    2*int(c.MaxHeaderBytes) - headerSlack,
	}
}

func adminLimits() connectionLimits {
	return connectionLimits{
		readHeaderTimeout: adminReadTimeout,
		bodyTimeout:       adminReadTimeout,
		writeTimeout:      adminWriteTimeout,
		idleTimeout:       adminIdleTimeout,
		maxHeaderBytes:    adminMaxHeaderBytes,
	}
}

// serverOptions are the options of newServer. All are required except bound and tls.
type serverOptions struct {
	name, address string
	bound         *net.TCPListener // nil to bind the address
	tls           *tls.Config      // nil for plain HTTP
	connections   *connections
	handler       http.Handler
	limits        connectionLimits
	errors        slog.Handler // for errors of connections; it limits its lines
}

// A server is a listener and the http.Server on it.
type server struct {
	name        string
	listener    *listener
	http        *http.Server
	draining    atomic.Bool
	unused      atomic.Int64  // connections whose first request has not arrived
	acceptEnded chan struct{} // closed when no more connections are accepted
}

// newServer binds a listener, unless it is bound. Connections wait in its queue until serve is called.
func newServer(ctx context.Context, o serverOptions) (*server, error) {
	tcp, err := bind(ctx, o.address, o.bound)
	if err != nil {
		return nil, fmt.Errorf("bind the %s listener: %w", o.name, err)
	}
	if o.tls != nil {
		o.tls = countHello(o.tls)
	}
	s := &server{
		name: o.name, listener: &listener{TCPListener: tcp, connections: o.connections, tls: o.tls}, acceptEnded: make(chan struct{}),
	}
	s.http = &http.Server{
		Handler:                      countInput(closeUnread(s.closeWhileDraining(o.handler), o.limits.bodyTimeout)),
		ReadHeaderTimeout:            o.limits.readHeaderTimeout,
		WriteTimeout:                 o.limits.writeTimeout,
		IdleTimeout:                  o.limits.idleTimeout,
		MaxHeaderBytes:               o.limits.maxHeaderBytes,
		HTTP2:                        o.limits.http2(),
		DisableGeneralOptionsHandler: true, // the gateway answers OPTIONS * too
		ConnContext:                  connectionContext,
		ConnState:                    s.trackFirstRequest,
		ErrorLog:                     slog.NewLogLogger(o.errors, slog.LevelWarn),
	}
	return s, nil
}

// serve accepts connections until shutDown is called; then it returns nil.
func (s *server) serve() error {
	defer close(s.acceptEnded)
	if err := s.http.Serve(s.listener); !errors.Is(err, errStopped) {
		return fmt.Errorf("serve on the %s listener: %w", s.name, err)
	}
	return nil
}

// closeWhileDraining sends Connection: close with each response while the server drains. Without it, the server could close a connection at
// the moment when the client sends its next request, which would fail.
func (s *server) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
			s.firstRequestStarted(r.Context())
		}
		next.ServeHTTP(w, r)
	})
}

// drain closes each connection with its next response.
func (s *server) drain() { s.draining.Store(true) }

const (
	// acceptGrace is how long a listener that closes still accepts connections: closing it resets connections in the accept queue of the
	// kernel.
	acceptGrace = 50 * time.Millisecond
	// shutdownRetry is the interval between calls of http.Server.Shutdown. Each call sends GOAWAY to the HTTP/2 connections that exist, but
	// not to connections whose TLS handshake is in progress.
	shutdownRetry = time.Second
)

// shutDown accepts no more connections, waits for the requests in flight until ctx ends, and cuts off those that remain. It blocks until
// serve has returned.
func (s *server) shutDown(ctx context.Context) error {
	_ = s.listener.SetDeadline(time.Now().Add(acceptGrace)) // fails if the listener is closed
	<-s.acceptEnded
	s.awaitFirstRequests(ctx)
	for {
		attempt, cancel := context.WithTimeout(ctx, shutdownRetry)
		err := s.http.Shutdown(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return fmt.Errorf("requests on the %s listener were cut off: %w", s.name, errors.Join(err, s.http.Close()))
		}
	}
}
