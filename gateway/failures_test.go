package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient"
	"opsgate/backendclient/tlsfiles"
)

// connectTo connects a gateway to an address instead of its services, without retries.
func connectTo(t *testing.T, address string, change func(*backendclient.Options)) func(*Options) {
	t.Helper()
	to := backendclient.Upstream{Address: address}
	options := backendclient.Options{
		Upstreams: backendclient.Upstreams{Fleet: to, Monitoring: to, Incident: to, Audit: to, Identity: to},
		Settings:  backendclient.DefaultSettings(),
	}
	options.Retries.Max, options.Breaker.MinRequests = 0, 1<<30
	if change != nil {
		change(&options)
	}
	clients, err := backendclient.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clients.Close() })
	return func(o *Options) {
		o.Fleet, o.Monitoring, o.Incident, o.Audit = clients.Fleet, clients.Monitoring, clients.Incident, clients.Audit
	}
}

// serve listens until the test ends.
func serve(t *testing.T, server *http.Server) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// connection is the context key of a request's connection.
type connection struct{}

// overHTTP2 serves responses that a gRPC server would not send.
func overHTTP2(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	server := &http.Server{
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: time.Minute,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/grpc.health.v1.") {
				w.Header().Set("Grpc-Status", "12") // health checks are unimplemented
				begin(w, nil)
				return
			}
			handler(w, r)
		}),
	}
	server.Protocols.SetUnencryptedHTTP2(true)
	return serve(t, server)
}

// begin begins a response as a gRPC server does.
func begin(w http.ResponseWriter, part []byte) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write(part)
	_ = http.NewResponseController(w).Flush()
}

// cut closes the connection of a request.
func cut(r *http.Request) {
	if conn, ok := r.Context().Value(connection{}).(net.Conn); ok {
		_ = conn.Close()
	}
}

// A failure is a broken connection to a service, or an invalid response.
type failure struct {
	name   string
	at     func(*testing.T) string        // returns the address that the gateway connects to
	calls  func(*backendclient.Options)   // options of the calls; nil for the defaults
	before func(t *testing.T, h *harness) // runs before the requests; nil for nothing
	within time.Duration                  // timeout of a request; 0 for the default
	status int
	code   string
	cause  string // in the log only
}

// answering returns a failure with an HTTP/2 server.
func answering(handler http.HandlerFunc) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		return overHTTP2(t, handler)
	}
}

// unusedAddress returns an address without a listener.
func unusedAddress(*testing.T) string { return "127.0.0.1:1" }

// failuresOfConnections returns failures without a response.
func failuresOfConnections() []failure {
	arrived := make(chan struct{}, 1)
	hang := answering(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return []failure{
		{name: "no listener", at: unusedAddress, status: 503, code: "unavailable", cause: "connection refused"},
		{name: "the breaker is open", at: unusedAddress, calls: func(o *backendclient.Options) {
			o.Breaker.MinRequests, o.Breaker.OpenFor = 1, time.Hour
		}, before: everyRoute, status: 503, code: "unavailable", cause: backendclient.ReasonBreakerOpen},
		{name: "too many calls are in flight", at: answering(func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
		}), calls: func(o *backendclient.Options) { o.MaxInFlight = 1 }, before: func(t *testing.T, h *harness) {
			t.Helper()
			fillCallLimit(t, h, arrived)
		}, status: 503, code: "unavailable", cause: backendclient.ReasonOverloaded},
		{name: "no answer in time", at: hang, within: 50 * time.Millisecond, status: 504, code: "timeout", cause: "DeadlineExceeded"},
		{name: "no answer, and the connection is cut", at: answering(func(_ http.ResponseWriter, r *http.Request) {
			cut(r)
		}), status: 503, code: "unavailable", cause: "Unavailable"},
		{name: "a proxy without a backend", at: answering(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}), status: 503, code: "unavailable", cause: "502"},
		{name: "a server that speaks HTTP/1.1", at: func(t *testing.T) string {
			t.Helper()
			return serve(t, &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute})
		}, status: 503, code: "unavailable", cause: "Unavailable"},
		{name: "a server that does not speak TLS", at: hang, calls: func(o *backendclient.Options) {
			to := backendclient.Upstream{Address: o.Upstreams.Fleet.Address, TLS: &tlsfiles.Files{}}
			o.Upstreams = backendclient.Upstreams{Fleet: to, Monitoring: to, Incident: to, Audit: to, Identity: to}
		}, status: 503, code: "unavailable", cause: "authentication handshake failed"},
	}
}

// failuresOfAnswers returns failures with an invalid response.
func failuresOfAnswers() []failure {
	half := []byte{0, 0, 0, 0, 100, 1, 2, 3} // of a message of 100 bytes
	return []failure{
		{name: "half a response, then nothing", at: answering(func(w http.ResponseWriter, r *http.Request) {
			begin(w, half)
			<-r.Context().Done()
		}), within: 50 * time.Millisecond, status: 504, code: "timeout", cause: "DeadlineExceeded"},
		{name: "half a response, then the connection is closed", at: answering(func(w http.ResponseWriter, r *http.Request) {
			begin(w, half)
			cut(r)
		}), status: 503, code: "unavailable", cause: "Unavailable"},
		{name: "half a response, then the stream is reset", at: answering(func(w http.ResponseWriter, _ *http.Request) {
			begin(w, half)
			panic(http.ErrAbortHandler)
		}), status: 500, code: "internal_error", cause: "Internal"},
		{name: "half a response with status OK", at: answering(func(w http.ResponseWriter, _ *http.Request) {
			begin(w, half)
			w.Header().Set("Grpc-Status", "0")
		}), status: 500, code: "internal_error", cause: "Internal"},
		{name: "a response without a status", at: answering(func(w http.ResponseWriter, _ *http.Request) {
			begin(w, []byte{0, 0, 0, 0, 0})
		}), status: 500, code: "internal_error", cause: "Internal"},
		{name: "a response that is not a message", at: answering(func(w http.ResponseWriter, _ *http.Request) {
			begin(w, []byte{0, 0, 0, 0, 2, 0xff, 0xff})
			w.Header().Set("Grpc-Status", "0")
		}), status: 500, code: "internal_error", cause: "unmarshal"},
		{name: "a response that is too large", at: answering(func(w http.ResponseWriter, _ *http.Request) {
			begin(w, append([]byte{0, 0, 0, 8, 0}, make([]byte, 2048)...))
			w.Header().Set("Grpc-Status", "0")
		}), calls: func(o *backendclient.Options) { o.MaxResponseBytes = 1024 },
			status: 500, code: "internal_error", cause: "larger than max"},
		{name: "a page of HTML", at: answering(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>")
		}), status: 500, code: "internal_error", cause: "text/html"},
	}
}

// everyRoute sends one request to each route.
func everyRoute(t *testing.T, h *harness) {
	t.Helper()
	for _, route := range h.gateway.rows {
		h.do(t, "full", route.Method, target(route), validBody(route))
	}
}

// fillCallLimit keeps a call of each service in flight until the test ends.
func fillCallLimit(t *testing.T, h *harness, arrived <-chan struct{}) {
	t.Helper()
	for _, path := range []string{"/v1/servers", "/v1/monitors", "/v1/incidents", "/v1/audit"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer full")
		go func() {
			if response, err := http.DefaultClient.Do(req); err == nil { // after an error, the test has ended
				_ = response.Body.Close()
			}
		}()
		<-arrived
	}
}

// A failed connection to a service gives a response of the contract on every route.
func TestEveryFailureOnEveryRoute(t *testing.T) {
	for _, f := range slices.Concat(failuresOfConnections(), failuresOfAnswers()) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			h := start(t, connectTo(t, f.at(t), f.calls), func(o *Options) { o.Timeout = f.within })
			if f.before != nil {
				f.before(t, h)
			}
			for _, route := range h.gateway.rows {
				f.mustFailOn(t, h, route)
			}
			// All routes but one call a service, and the last line may not be written yet.
			if n, want := strings.Count(h.log.String(), f.cause), len(h.gateway.rows)-2; n < want {
				t.Errorf("the log has %q %d times, want at least %d: %s", f.cause, n, want, h.log.String())
			}
		})
	}
}

func (f failure) mustFailOn(t *testing.T, h *harness, route Route) {
	t.Helper()
	got := h.do(t, "full", route.Method, target(route), validBody(route))
	if route.Service == "" {
		got.mustBe(t, 200)
		return
	}
	got.mustFail(t, f.status, f.code)
	if has := got.Header.Get("Retry-After") != ""; has != (f.status == 503) {
		t.Errorf("%s: Retry-After = %q", route.ID, got.Header.Get("Retry-After"))
	}
	if strings.Contains(got.body, "127.0.0.1") || strings.Contains(got.body, f.cause) {
		t.Errorf("%s: the response reveals internals: %s", route.ID, got.body)
	}
}
