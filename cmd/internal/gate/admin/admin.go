package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"opsgate/backendclient"
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/kit/logging"
)

// Names of dependencies that are not internal services.
const (
	DependencyRedis       = "redis"
	DependencyRevocations = "revocations" // the identity service's stream
	DependencyCapacity    = "capacity"    // requests in flight
	DependencyConnections = "connections" // open connections
)

// Dependency is the state of a resource that the gateway needs.
type Dependency struct {
	State  string `json:"state"`            // "ready", "connecting", …
	Reason string `json:"reason,omitempty"` // why OK is false; unauthenticated clients can read it

	OK      bool                         `json:"-"`
	Since   time.Time                    `json:"-"` // when OK became false; zero if OK or unknown
	Breaker *backendclient.BreakerStatus `json:"-"` // nil for a dependency without a breaker
	Load    *Load                        `json:"-"` // nil for a dependency that is not a limit

	TeamName       string                        `json:"-"` // of the team whose calls alone the breaker refuses; "" if unknown
	NotReady       bool                          `json:"-"` // the gateway must not get requests
	WrongEndpoints *backendclient.WrongEndpoints `json:"-"` // nil unless another service is at an address of this one
	// TokensUntil is when the last cached token ends; zero unless lookups of the identity service fail.
	TokensUntil time.Time `json:"-"`

	FailedLookup *backendclient.FailedLookup `json:"-"` // nil unless the name of the service does not resolve now

	Endpoints []backendclient.EndpointStatus `json:"-"` // addresses of an internal service, which unauthenticated clients must not see
}

// Load is the use of a limit.
type Load struct {
	Current int `json:"current"`
	Limit   int `json:"limit"`
}

// Options configure an Admin. All are required except Access and RefusalLines.
type Options struct {
	Metrics prometheus.Gatherer
	// Dependencies returns the state of each dependency by name. It is called for each readiness check and each scrape, and must not block.
	Dependencies func() map[string]Dependency

	Inspector Inspector
	Console   Console
	Access    Access
	// Hold exempts the connection of a request with verified credentials from eviction at the connection limit until release is called.
	Hold func(context.Context) (release func())
	// TokenPrefix is the prefix of API tokens. A request that contains it in its URL or in X-Operator is rejected.
	TokenPrefix string
	Logger      *slog.Logger
	// RefusalLines limits the log lines about refused access; nil for no limit.
	RefusalLines *logging.Lines
}

// Console serves the HTML page and its data.
type Console interface {
	// Page serves the document. It is served without a token: the page itself asks the operator for it.
	Page(w http.ResponseWriter, r *http.Request)
	// Runbook serves the page of docs/operate/runbooks whose file name is the path value "name". It needs no token either.
	Runbook(w http.ResponseWriter, r *http.Request)
	// State serves the state and the traffic of the gateway.
	State(w http.ResponseWriter, r *http.Request)
	// Drain makes the state that of a gateway that is draining.
	Drain()
}

// Admin is the handler of the admin listener. It is not ready until Serving is called.
type Admin struct {
	handler      http.Handler
	dependencies func() map[string]Dependency
	inspector    Inspector
	console      Console
	access       Access
	token        atomic.Pointer[bearer] // in force
	metricsToken atomic.Pointer[bearer] // in force
	logger       *slog.Logger
	refusals     *refusals
	phase        atomic.Int32
}

// New returns an Admin.
func New(o Options) *Admin {
	a := &Admin{dependencies: o.Dependencies, inspector: o.Inspector, console: o.Console, access: o.Access, logger: o.Logger}
	a.token.Store(newBearer(o.Access.Token))
	a.metricsToken.Store(newBearer(o.Access.MetricsToken))
	mux := http.NewServeMux()
	mux.Handle("GET "+pathMetrics, promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET "+pathLive, livez)
	mux.HandleFunc("GET "+pathReady, a.readyz)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /admin/explain", a.explain)
	mux.HandleFunc("GET /admin/limits", a.busiest)
	mux.HandleFunc("GET /admin/limits/{token_id}", a.limits)
	mux.HandleFunc("DELETE /admin/limits/{token_id}", a.reset)
	mux.HandleFunc("GET /admin/tokens", a.tokens)
	mux.HandleFunc("POST /admin/names", a.names)
	mux.HandleFunc("GET /admin/config", a.config)
	mux.HandleFunc("GET /admin/state", a.console.State)
	mux.HandleFunc("GET "+pathPage+"{$}", a.console.Page)
	mux.HandleFunc("GET "+pathRunbooks+"{name}", a.console.Runbook)
	a.refusals = newRefusals(a.logger, o.RefusalLines, mux)
	pages := rejectTokens(o.TokenPrefix, mux)
	a.handler = a.guard(pages, holdConnections(o.Hold, pages), a.refusals.observe)
	return a
}

// ServeHTTP implements [http.Handler].
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.handler.ServeHTTP(w, r)
}

// Serving makes the gateway ready, unless it is draining.
func (a *Admin) Serving() { a.phase.CompareAndSwap(starting, serving) }

// Draining makes the gateway permanently not ready.
func (a *Admin) Draining() {
	a.phase.Store(draining)
	a.console.Drain()
}

func livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// NewRegistry returns a registry with the metrics of the Go runtime, the process, and the build.
func NewRegistry(build buildinfo.Info) *prometheus.Registry {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "opsgate_build_info",
		Help: "1, with the build as labels.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion,
		},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister( // cannot fail: the registry is empty
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// Failure is the body of an error response.
type Failure struct {
	Text    string            `json:"error"`
	Code    string            `json:"code"`
	Details map[string]string `json:"details,omitempty"` // problems by parameter
}

// Respond writes a response in JSON.
func Respond(w http.ResponseWriter, status int, body any) {
	setHeader(w, "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // readable on a terminal
	_ = encoder.Encode(body)     // fails only if the client has disconnected
}

// respond writes the response of a request without problems.
func respond(w http.ResponseWriter, problems map[string]string, body func() any) {
	if len(problems) > 0 {
		invalid(w, problems)
		return
	}
	Respond(w, http.StatusOK, body())
}

func setHeader(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
}

// invalid rejects a request with invalid parameters.
func invalid(w http.ResponseWriter, details map[string]string) {
	Respond(w, http.StatusBadRequest, Failure{Text: "the request has invalid parameters", Code: "validation_error", Details: details})
}
