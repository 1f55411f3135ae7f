package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"opsgate/cmd/internal/logging"
)

// A Dependency is something that the gateway needs.
type Dependency struct {
	State  string `json:"state"`            // in a word: "ready", "connecting"
	Reason string `json:"reason,omitempty"` // why it is not OK, fit for anybody's eyes
	OK     bool   `json:"-"`

	Since time.Time `json:"-"` // it is not OK; zero where it is, and where that is not known
}

// Options are what an Admin is made of.
type Options struct {
	Metrics prometheus.Gatherer
	// Dependencies tells how the things that the gateway needs stand, by names of a closed set. It is called for each readiness
	// check and each scrape, and must not wait for them.
	Dependencies func() map[string]Dependency

	Inspector Inspector // nil for no pages under /admin/
	Console   Console   // nil for no page for people
	Access    Access
	// Hold keeps the connection of a request with verified credentials open until release is called, where the listener is at its limit of
	// connections; nil where it has none.
	Hold func(context.Context) (release func())
	// LiveTokens is what the tokens of clients begin with: such a one is refused wherever it stands in a request.
	LiveTokens string
	Logger     *slog.Logger // nil for none
	// RefusalLines bound the log lines of refused access; nil for no bound.
	RefusalLines *logging.Lines
}

// A Console is the page for people, and the events that it follows.
type Console interface {
	// Page answers with what asks for no token: a browser has none to show before the page asks its reader.
	Page(w http.ResponseWriter, r *http.Request)
	Events(w http.ResponseWriter, r *http.Request)
	// Drain ends the events.
	Drain()
}

// An Admin answers on the admin listener. A new one is not ready.
type Admin struct {
	handler      http.Handler
	dependencies func() map[string]Dependency
	inspector    Inspector
	console      Console
	access       Access
	logger       *slog.Logger
	refusals     *refusals
	phase        atomic.Int32
}

// New makes an Admin.
func New(o Options) *Admin {
	a := &Admin{dependencies: o.Dependencies, inspector: o.Inspector, console: o.Console, access: o.Access, logger: o.Logger}
	if a.logger == nil {
		a.logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET "+pathLive, livez)
	mux.HandleFunc("GET "+pathReady, a.readyz)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if a.inspector != nil {
		mux.HandleFunc("GET /admin/explain", a.explain)
		mux.HandleFunc("GET /admin/limits", a.busiest)
		mux.HandleFunc("GET /admin/limits/{token_id}", a.limits)
		mux.HandleFunc("DELETE /admin/limits/{token_id}", a.reset)
		mux.HandleFunc("GET /admin/config", a.config)
	}
	if a.console != nil {
		mux.HandleFunc("GET "+pathPage+"{$}", a.console.Page)
		mux.HandleFunc("GET /admin/events", a.console.Events)
	}
	a.refusals = newRefusals(a.logger, o.RefusalLines, mux)
	pages := withoutTokens(o.LiveTokens, mux)
	a.handler = a.access.guard(pages, holding(o.Hold, pages), a.refusals.observe)
	return a
}

// ServeHTTP answers one request.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.handler.ServeHTTP(w, r)
}

// Serving makes the gateway ready, unless it is draining already.
func (a *Admin) Serving() { a.phase.CompareAndSwap(starting, serving) }

// Draining makes it not ready, for good.
func (a *Admin) Draining() {
	a.phase.Store(draining)
	if a.console != nil {
		a.console.Drain()
	}
}

// livez answers as long as the process can answer at all.
func livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}
