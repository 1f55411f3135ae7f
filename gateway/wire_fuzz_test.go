package gateway

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

// A wire is a connection whose client has sent all its bytes, and reads the responses after the
// server has closed it.
type wire struct {
	mu      sync.Mutex
	changed sync.Cond
	in      *bytes.Reader
	out     bytes.Buffer
	expired bool // the deadline for reading has passed
	closed  bool
	done    chan struct{}
}

func newWire(sent []byte) *wire {
	w := &wire{in: bytes.NewReader(sent), done: make(chan struct{})}
	w.changed.L = &w.mu
	return w
}

// Read returns EOF after the bytes that the client has sent. While a handler runs, net/http reads a
// single byte ahead to detect a disconnect; such a read blocks.
func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.in.Len() == 0 && len(p) == 1 && !w.expired && !w.closed {
		w.changed.Wait()
	}
	switch {
	case w.closed:
		return 0, net.ErrClosed
	case w.expired:
		return 0, os.ErrDeadlineExceeded
	}
	return w.in.Read(p)
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.done)
		w.changed.Broadcast()
	}
	return nil
}

// SetReadDeadline applies a deadline in the past, which ends a read, and no deadline. It ignores
// deadlines in the future.
func (w *wire) SetReadDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expired = !at.IsZero() && at.Before(time.Now())
	w.changed.Broadcast()
	return nil
}

func (*wire) SetDeadline(time.Time) error      { return nil }
func (*wire) SetWriteDeadline(time.Time) error { return nil }
func (*wire) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }
func (*wire) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000} }

// A wireServer serves wires with net/http.
type wireServer struct {
	arrivals chan net.Conn
	log      testkit.Buffer

	mu       sync.Mutex
	requests []*wireRequest // of the current wire, as passed to the handler
}

// A wireRequest is a request that a handler got.
type wireRequest struct {
	*http.Request

	body bytes.Buffer // the part that was read
}

func startWireServer(tb testing.TB, handler http.Handler) *wireServer {
	tb.Helper()
	s := &wireServer{arrivals: make(chan net.Conn)}
	server := &http.Server{
		MaxHeaderBytes: 16 << 10, DisableGeneralOptionsHandler: true,
		ErrorLog: slog.NewLogLogger(slog.NewTextHandler(&s.log, nil), slog.LevelWarn),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kept := &wireRequest{Request: r.Clone(r.Context())}
			s.mu.Lock()
			s.requests = append(s.requests, kept)
			s.mu.Unlock()
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &kept.body), r.Body}
			handler.ServeHTTP(w, r)
		}),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(s)
	}()
	tb.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return s
}

// Accept implements [net.Listener].
func (s *wireServer) Accept() (net.Conn, error) {
	conn, open := <-s.arrivals
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close implements [net.Listener].
func (s *wireServer) Close() error {
	close(s.arrivals)
	return nil
}

// Addr implements [net.Listener].
func (s *wireServer) Addr() net.Addr { return (*wire)(nil).LocalAddr() }

// serve serves the bytes as one connection, and returns its requests and the bytes of the
// responses.
func (s *wireServer) serve(sent []byte) (requests []*wireRequest, answered *bytes.Buffer) {
	s.mu.Lock()
	s.requests = nil
	s.mu.Unlock()
	w := newWire(sent)
	s.arrivals <- w
	<-w.done
	s.mu.Lock()
	defer s.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.requests, &w.out
}

// panicked reports whether a handler panicked.
func (s *wireServer) panicked() bool { return strings.Contains(s.log.String(), "panic") }
