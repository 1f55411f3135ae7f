package admin

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Dependency is something that the gateway needs.
type Dependency struct {
	State string `json:"state"` // in a word: "ready", "connecting"
	OK    bool   `json:"-"`
}

// Options are what an Admin is made of.
type Options struct {
	Metrics prometheus.Gatherer
	// Dependencies tells how the things that the gateway needs stand, by name. It is called for each readiness check and
	// must not wait for them.
	Dependencies func() map[string]Dependency
}

// An Admin answers on the admin listener. A new one is not ready.
type Admin struct {
	mux          *http.ServeMux
	dependencies func() map[string]Dependency
	phase        atomic.Int32
}

// The phases of a gateway.
const (
	starting int32 = iota
	serving
	draining
)

// New makes an Admin.
func New(o Options) *Admin {
	a := &Admin{mux: http.NewServeMux(), dependencies: o.Dependencies}
	a.mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	a.mux.HandleFunc("GET /livez", livez)
	a.mux.HandleFunc("GET /readyz", a.readyz)
	a.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	a.mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	a.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	a.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return a
}

// ServeHTTP answers one request.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Serving makes the gateway ready, unless it is draining already.
func (a *Admin) Serving() { a.phase.CompareAndSwap(starting, serving) }

// Draining makes it not ready, for good.
func (a *Admin) Draining() { a.phase.Store(draining) }

// livez answers as long as the process can answer at all.
func livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// readiness is the answer of /readyz.
type readiness struct {
	Status       string                `json:"status"` // ready, degraded, starting or draining
	Dependencies map[string]Dependency `json:"dependencies"`
}

func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	answer := readiness{Status: "ready", Dependencies: a.dependencies()}
	for _, d := range answer.Dependencies {
		if !d.OK {
			answer.Status = "degraded"
		}
	}
	status := http.StatusOK
	switch a.phase.Load() {
	case starting:
		status, answer.Status = http.StatusServiceUnavailable, "starting"
	case draining:
		status, answer.Status = http.StatusServiceUnavailable, "draining"
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the caller is gone: nobody is left to tell
}
