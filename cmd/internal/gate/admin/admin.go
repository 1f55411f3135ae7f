package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/internal/logging"
	"opsgate/internal/pulse"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/heavyhitters"
	"opsgate/ratelimit/membership"
)

// Options configure an Admin. Redis, Capacities, Access, Host, Version and RefusalLines are
// optional.
type Options struct {
	Active        func() Active
	Clients       *backendclient.Clients
	Authenticator *authn.Authenticator
	Limits        ratelimit.Store
	Redis         *Redis // nil if limits are counted in memory
	Busiest       *heavyhitters.Sketch
	Capacities    []Capacity
	Metrics       prometheus.Gatherer

	Access Access
	// MarkBusy exempts the connection of a request with verified credentials from eviction at the
	// connection limit until markIdle is called.
	MarkBusy func(context.Context) (markIdle func())
	// LiveTokenPrefix is the prefix of API tokens. A request whose URL or X-Operator contains it is
	// rejected.
	LiveTokenPrefix string
	Host, Version   string // of the machine and the program, for the page
	Logger          *slog.Logger
	RefusalLines    *logging.Lines   // limits the log lines about refused access; nil for no limit
	Clock           func() time.Time // wall clock
}

// Active is the active configuration with what was built from it.
type Active struct {
	Configuration // without Values

	Loaded   *config.Loaded
	Policies *ratelimit.Policies
	Gateway  *gateway.Gateway
}

// Redis is the part of the limiter that counts in Redis.
type Redis struct {
	Limits    *failover.Store
	Gateways  *membership.Gateways
	DividedBy func() int // number of gateways that divide the limits in an outage
}

// Admin is the handler of the admin listener, and the collector of its metrics. It is not ready
// until Serving is called.
type Admin struct {
	http.Handler

	options      Options
	page         document
	token        atomic.Pointer[bearer] // in force
	metricsToken atomic.Pointer[bearer] // in force
	mux          *http.ServeMux
	refusals     *prometheus.CounterVec
	phase        atomic.Int32
	capacities   []*monitoredCapacity
	startup      startup

	mu      sync.Mutex
	samples samples // never modified: each sample makes a new list
	latest  State
	readAt  time.Time // of latest
}

// New returns an Admin.
func New(o Options) *Admin {
	mux := http.NewServeMux()
	a := &Admin{options: o, page: newPage(), mux: mux, refusals: newRefusals()}
	for _, c := range o.Capacities {
		a.capacities = append(a.capacities, &monitoredCapacity{Capacity: c})
	}
	a.token.Store(newBearer(o.Access.Token))
	a.metricsToken.Store(newBearer(o.Access.MetricsToken))
	mux.Handle("GET "+pathMetrics, promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET "+pathLive, livez)
	mux.HandleFunc("GET "+pathReady, a.readyz)
	mux.HandleFunc("GET /admin/explain", a.explain)
	mux.HandleFunc("GET /admin/limits", a.busiest)
	mux.HandleFunc("GET /admin/limits/{token_id}", a.limits)
	mux.HandleFunc("DELETE /admin/limits/{token_id}", a.reset)
	mux.HandleFunc("GET /admin/tokens", a.tokens)
	mux.HandleFunc("POST /admin/names", a.names)
	mux.HandleFunc("GET /admin/config", a.config)
	mux.HandleFunc("GET /admin/state", a.state)
	mux.HandleFunc("GET "+pathPage+"{$}", func(w http.ResponseWriter, _ *http.Request) { a.page.serve(w) })
	mux.HandleFunc("GET "+pathRunbooks+"{name}", runbook)
	a.Handler = a.guard(rejectTokens(o.LiveTokenPrefix, mux))
	return a
}

// Run samples the traffic, and logs the beginning and the end of overloads, until ctx ends. It
// returns nil.
func (a *Admin) Run(ctx context.Context) error {
	check, sample := pulse.New(overloadCheckEvery), pulse.New(sampleEvery)
	defer check.Stop()
	defer sample.Stop()
	for a.sample(); ; {
		select {
		case <-check.C:
			check.Again()
			for _, c := range a.capacities {
				c.check(a.options.Logger, a.options.Clock())
			}
		case <-sample.C:
			sample.Again()
			a.sample()
		case <-ctx.Done():
			return nil
		}
	}
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

// respond writes the response of a request, or rejects it for problems by parameter.
func respond(w http.ResponseWriter, problems map[string]string, body func() any) {
	if len(problems) > 0 {
		Respond(w, http.StatusBadRequest,
			Failure{Text: "the request has invalid parameters", Code: "validation_error", Details: problems})
		return
	}
	Respond(w, http.StatusOK, body())
}

func setHeader(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
}
