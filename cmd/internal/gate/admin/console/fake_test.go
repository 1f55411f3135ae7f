package console_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient"
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
)

func TestMain(m *testing.M) {
	backendclient.DisableGRPCLog()
	// Parallel tests wait more than they compute: for the browser, and for samples of metrics, which are ten seconds apart.
	_ = flag.Set("test.parallel", "6") // before the flags are parsed, so that -parallel overrides it
	testkit.VerifyTestMain(m)
}

func newConsole(metrics prometheus.Gatherer, source console.Source) *console.Console {
	return newWithClock(metrics, source, time.Now)
}

// newAtNoon returns a console whose clock stands at noon.
func newAtNoon(metrics prometheus.Gatherer, source console.Source) *console.Console {
	return newWithClock(metrics, source, func() time.Time { return noon })
}

func newWithClock(metrics prometheus.Gatherer, source console.Source, clock func() time.Time) *console.Console {
	return console.New(console.Options{Sampler: console.NewSampler(metrics, clock), Source: source, Clock: clock})
}

// fakeSource is a console.Source with fixed values.
type fakeSource struct {
	dependencies map[string]admin.Dependency
	store        admin.Store
	busiest      []admin.BusyToken
	config       admin.Configuration
	teams        map[string]string // names by id
}

func (s *fakeSource) Dependencies() map[string]admin.Dependency { return s.dependencies }
func (s *fakeSource) Store() admin.Store                        { return s.store }
func (s *fakeSource) Busiest(n int) []admin.BusyToken           { return s.busiest[:min(n, len(s.busiest))] }
func (s *fakeSource) Names([]string) map[string]string          { return s.teams }
func (s *fakeSource) Configuration() admin.Configuration        { return s.config }

// healthy returns the source of a gateway without problems.
func healthy() *fakeSource {
	return &fakeSource{
		dependencies: map[string]admin.Dependency{
			"fleet": {State: "ready", OK: true, Breaker: &backendclient.BreakerStatus{State: "closed"}},
		},
		store:  admin.Store{Mode: "memory"},
		config: admin.Configuration{Version: "0123456789ab", Since: noon, File: "opsgate.yaml"},
	}
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// counters are the metrics of a gateway.
type counters struct {
	*prometheus.Registry

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	calls     *prometheus.HistogramVec
}

func newCounters() *counters {
	c := &counters{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "opsgate_http_requests_total"}, []string{"route", "status", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "opsgate_http_request_duration_seconds", Buckets: []float64{.01, .1, 1},
		}, []string{"route"}),
	}
	c.calls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "opsgate_upstream_request_duration_seconds", Buckets: []float64{.01, .1, 1, 10},
	}, []string{"service", "method", "code"})
	c.MustRegister(c.requests, c.durations, c.calls)
	return c
}

// count counts n requests with a duration.
func (c *counters) count(route, status string, n int, took time.Duration) {
	c.requests.WithLabelValues(route, status, "some").Add(float64(n))
	for range n {
		c.durations.WithLabelValues(route).Observe(took.Seconds())
	}
}

// call counts n calls of a method of fleet with a duration.
func (c *counters) call(method, code string, n int, took time.Duration) {
	for range n {
		c.calls.WithLabelValues("fleet", method, code).Observe(took.Seconds())
	}
}

// stateOf returns the state that a console responds with.
func stateOf(t *testing.T, c *console.Console) (s console.State) {
	t.Helper()
	w := httptest.NewRecorder()
	c.State(w, httptest.NewRequest(http.MethodGet, "/admin/state", http.NoBody))
	if got := w.Header(); w.Code != http.StatusOK || got.Get("Content-Type") != "application/json" || got.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v", w.Code, got)
	}
	testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &s))
	return s
}
