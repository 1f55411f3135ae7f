package admin

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

func TestMain(m *testing.M) {
	backendclient.DisableGRPCLog()
	// Parallel tests wait more than they compute: for the browser, and for samples of metrics,
	// which are ten seconds apart.
	_ = flag.Set("test.parallel", "6") // before the flags are parsed, so that -parallel overrides it
	testkit.VerifyTestMain(m)
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

const (
	tokenPrefix = "ops_live_"
	secretToken = "the token of operators"
)

// options returns the options of an Admin at noon, whose parts are real, but for connections to
// services.
func options(tb testing.TB) Options {
	tb.Helper()
	var variables []string
	for _, service := range []string{"FLEET", "MONITORING", "INCIDENT", "AUDIT", "IDENTITY"} {
		variables = append(variables, "OPSGATE_UPSTREAMS_"+service+"_ADDRESS=127.0.0.1:1")
	}
	loaded, err := config.Load(config.Options{Environment: variables})
	testkit.Must(tb, err)
	assigned, err := config.NewPolicies(loaded, noon, nil)
	testkit.Must(tb, err)
	limits := ratelimit.NewMemory(func() time.Time { return noon })
	tokens := cached(tb, "Bot", 100)
	dialed := dial(tb)
	g, err := gateway.New(gateway.Options{
		Fleet: dialed.Fleet, Monitoring: dialed.Monitoring, Incident: dialed.Incident, Audit: dialed.Audit,
		Authenticator: tokens, Limiter: limits, Policies: assigned, Refunds: gateway.NewRefunds(gateway.RefundsOptions{Limiter: limits}),
	})
	testkit.Must(tb, err)
	return Options{
		Active: func() Active {
			return Active{Configuration: Configuration{Version: "0123456789ab", Since: noon, File: "opsgate.yaml"}, Loaded: &loaded, Policies: assigned, Gateway: g}
		},
		Clients: new(backendclient.Clients), Authenticator: tokens, Limits: limits, Busiest: heavyhitters.New(), Metrics: prometheus.NewRegistry(),
		MarkBusy:        func(context.Context) func() { return func() {} },
		LiveTokenPrefix: tokenPrefix, Logger: slog.New(slog.DiscardHandler), Clock: func() time.Time { return noon },
	}
}

// dial returns clients that are closed, since no call is made.
func dial(tb testing.TB) *backendclient.Clients {
	tb.Helper()
	dead := backendclient.Target{Address: "127.0.0.1:1"}
	clients, err := backendclient.Dial(backendclient.Options{
		Upstreams: backendclient.Upstreams{Fleet: dead, Monitoring: dead, Incident: dead, Audit: dead, Identity: dead},
	})
	testkit.Must(tb, err)
	testkit.Must(tb, clients.Close())
	return clients
}

// withAccess returns an Admin with the access and the log.
func (o Options) withAccess(access Access, log io.Writer) *Admin {
	o.Access, o.Logger = access, slog.New(slog.NewJSONHandler(log, nil))
	return New(o)
}

// send sends a request, which a test may change.
func send(a http.Handler, method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, http.NoBody)
	request.Host = "127.0.0.1:9090"
	for _, c := range change {
		c(request)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, request)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (answer T) {
	t.Helper()
	if got := w.Header(); got.Get("Content-Type") != "application/json" || got.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v", got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return answer
}

// metrics are the metrics of a gateway.
type metrics struct {
	*prometheus.Registry

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	calls     *prometheus.HistogramVec
}

func newMetrics() *metrics {
	c := &metrics{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricRequests}, []string{"route", "status", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricDuration, Buckets: []float64{.01, .1, 1},
		}, []string{"route"}),
	}
	c.calls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: metricCallTimes, Buckets: []float64{.01, .1, 1, 10},
	}, []string{"service", "method", "code"})
	c.MustRegister(c.requests, c.durations, c.calls)
	return c
}

// count counts n requests with a duration.
func (c *metrics) count(route, status string, n int, took time.Duration) {
	c.requests.WithLabelValues(route, status, "some").Add(float64(n))
	for range n {
		c.durations.WithLabelValues(route).Observe(took.Seconds())
	}
}

// call counts n calls of a method of fleet with a duration.
func (c *metrics) call(method, code string, n int, took time.Duration) {
	for range n {
		c.calls.WithLabelValues("fleet", method, code).Observe(took.Seconds())
	}
}

// sampled returns an Admin with metrics, of which it has a first sample.
func sampled(tb testing.TB) (*Admin, *metrics) {
	tb.Helper()
	o, m := options(tb), newMetrics()
	o.Metrics = m
	a := New(o)
	a.sample()
	return a, m
}

// samples takes n samples.
func (a *Admin) sampleTimes(n int) {
	for range n {
		a.sample()
	}
}

// state returns the state now.
func stateOf(a *Admin) State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.readState()
}

func idOf(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }
