package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Bounds of the admin listener. Answers may take long there: a profile is taken for as long as its caller asks.
const (
	adminReadTimeout    = 10 * time.Second
	adminWriteTimeout   = 5 * time.Minute
	adminIdleTimeout    = 2 * time.Minute
	adminMaxHeaderBytes = 16 << 10
)

// publicServer makes the server of the API. What net/http leaves unbounded by default has a bound here.
func publicServer(o Options, api http.Handler) *http.Server {
	c := o.Config.HTTP
	return &http.Server{
		Handler:                      api,
		ReadHeaderTimeout:            time.Duration(c.ReadHeaderTimeout),
		ReadTimeout:                  time.Duration(c.ReadTimeout),
		WriteTimeout:                 time.Duration(c.WriteTimeout),
		IdleTimeout:                  time.Duration(c.IdleTimeout),
		MaxHeaderBytes:               int(c.MaxHeaderBytes),
		DisableGeneralOptionsHandler: true, // OPTIONS * is answered in the contract's shape as well
		ErrorLog:                     slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
}

// adminServer makes the server for operators.
func adminServer(o Options, pages http.Handler) *http.Server {
	return &http.Server{
		Handler:           pages,
		ReadHeaderTimeout: adminReadTimeout,
		ReadTimeout:       adminReadTimeout,
		WriteTimeout:      adminWriteTimeout,
		IdleTimeout:       adminIdleTimeout,
		MaxHeaderBytes:    adminMaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
}

// A server is an HTTP server with its listener.
type server struct {
	name     string
	http     *http.Server
	listener net.Listener
	leaving  atomic.Bool
}

// newServer binds a server's listener.
func newServer(ctx context.Context, name, address string, s *http.Server) (*server, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("bind the %s listener: %w", name, err)
	}
	bound := &server{name: name, http: s, listener: listener}
	s.Handler = bound.sayGoodbye(s.Handler)
	return bound, nil
}

// serve answers until the server is shut down.
func (s *server) serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on the %s listener: %w", s.name, err)
	}
	return nil
}

// leave has each connection end with its next answer, which says so. A connection that ends unannounced may end in the very
// moment in which a client sends its next request, and that request fails.
func (s *server) leave() { s.leaving.Store(true) }

func (s *server) sayGoodbye(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// shutDown takes no more connections and waits for the requests in flight until ctx ends; then it cuts them off.
func (s *server) shutDown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("requests on the %s listener were cut off: %w", s.name, errors.Join(err, s.http.Close()))
	}
	return err
}
