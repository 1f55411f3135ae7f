package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/admin/console"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A source is a gateway of which everything is said beforehand.
type source struct {
	dependencies []console.Dependency
	store        admin.Store
	busiest      []admin.BusyToken
	config       admin.Configuration
}

func (s *source) Dependencies() []console.Dependency { return s.dependencies }
func (s *source) Store() admin.Store                 { return s.store }
func (s *source) Busiest(n int) []admin.BusyToken    { return s.busiest[:min(n, len(s.busiest))] }
func (s *source) Configuration() admin.Configuration { return s.config }

// well is a source of which nothing is wrong.
func well() *source {
	return &source{
		dependencies: []console.Dependency{{Name: "fleet", State: "ready", OK: true, Breaker: &console.Breaker{State: "closed"}}},
		store:        admin.Store{Mode: "memory"},
		config:       admin.Configuration{Version: "0123456789ab", Since: noon, File: "opsgate.yaml"},
	}
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// Counters are the metrics of a gateway.
type counters struct {
	*prometheus.Registry

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newCounters() *counters {
	c := &counters{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "opsgate_http_requests_total"}, []string{"route", "status", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "opsgate_http_request_duration_seconds", Buckets: []float64{.01, .1, 1},
		}, []string{"route"}),
	}
	c.MustRegister(c.requests, c.durations)
	return c
}

// serve counts requests that took a time.
func (c *counters) serve(route, status string, n int, took time.Duration) {
	c.requests.WithLabelValues(route, status, "some").Add(float64(n))
	for range n {
		c.durations.WithLabelValues(route).Observe(took.Seconds())
	}
}

// look returns what somebody sees at first who opens the page now.
func look(t *testing.T, c *console.Console) (s console.State, traffic *console.Traffic) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // who leaves at once gets the first events
	w := httptest.NewRecorder()
	c.Events(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/admin/events", http.NoBody))
	events := bufio.NewReader(w.Body)
	for {
		name, data, err := next(events)
		if err != nil {
			return s, traffic
		}
		switch name {
		case "state":
			err = json.Unmarshal(data, &s)
		case "traffic":
			traffic = new(console.Traffic)
			err = json.Unmarshal(data, traffic)
		}
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	}
}

// next reads one event.
func next(r *bufio.Reader) (name string, data []byte, err error) {
	for {
		line, err := r.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		switch {
		case err != nil:
			return "", nil, err
		case line == "" && name != "":
			return name, data, nil
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = []byte(line[len("data: "):])
		default:
			return "", nil, io.ErrUnexpectedEOF
		}
	}
}
