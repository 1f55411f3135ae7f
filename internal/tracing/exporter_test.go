package tracing_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/testkit"
	"opsgate/internal/tracing"
	"opsgate/internal/tracing/tracingtest"
)

// batch is the number of spans that the processor sends without waiting for more.
const batch = 512

// A recorder is a Provider with its metrics and log.
type recorder struct {
	*tracing.Provider

	registry *prometheus.Registry
	log      *testkit.Buffer
}

func open(t testing.TB, endpoint string) recorder {
	t.Helper()
	r := recorder{registry: prometheus.NewRegistry(), log: new(testkit.Buffer)}
	var err error
	r.Provider, err = tracing.New(tracing.Options{
		Endpoint: endpoint, Version: "1.2.3", Registerer: r.registry, Logger: slog.New(slog.NewJSONHandler(r.log, nil)),
	})
	testkit.Must(t, err)
	return r
}

// record records requests with one span each.
func (r recorder) record(requests int) {
	tracer := r.Tracer(tracing.Settings{Sample: 1})
	for range requests {
		_, request := tracer.Trace(context.Background(), httptest.NewRequest(http.MethodGet, "/v1/servers", http.NoBody), "/v1/servers")
		request.End(http.StatusOK, "")
	}
}

// await waits until this number of spans has the outcome.
func (r recorder) await(t *testing.T, outcome string, spans int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d spans are %s", spans, outcome), func() bool { return r.spans(t)[outcome] == float64(spans) })
}

func (r recorder) spans(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := r.registry.Gather()
	testkit.Must(t, err)
	counts := make(map[string]float64)
	for _, m := range families[0].GetMetric() {
		counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	return counts
}

func TestAnOutageOfTheCollectorIsLoggedAtItsBeginningAndEnd(t *testing.T) {
	var away atomic.Bool
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer collector.Close()
	r := open(t, collector.URL)
	r.record(batch)
	r.await(t, "sent", batch)
	away.Store(true)
	for i := range 3 {
		r.record(batch)
		r.await(t, "failed", (i+1)*batch)
	}
	away.Store(false)
	r.record(batch)
	r.await(t, "sent", 2*batch)
	r.Close()
	lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"msg":"traces are lost: the collector does not accept them","error":`) ||
		!strings.Contains(lines[1], `"msg":"the collector accepts traces again","failures":3`) {
		t.Errorf("the log says\n%s", r.log.String())
	}
}

func TestACollectorThatHangsDelaysNoRequest(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // connections to it are never answered
	testkit.Must(t, err)
	defer func() { _ = listener.Close() }()
	for _, scheme := range []string{"http://", "grpc://"} {
		r := open(t, scheme+listener.Addr().String())
		r.record(3000) // more than the queue holds
		began := time.Now()
		r.Close()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: it took %v to end", scheme, took)
		}
		if !strings.Contains(r.log.String(), "traces are lost") {
			t.Errorf("%s: the log says %q", scheme, r.log.String())
		}
	}
}

func TestTheLibraryLogsByOurLogWithoutHeaders(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret")
	r := open(t, "http://127.0.0.1:1")
	r.Close()
	const line = `"level":"WARN","msg":"opentelemetry: parse headers","error":"missing '="`
	if text := r.log.String(); !strings.Contains(text, line) || strings.Contains(text, "secret") {
		t.Errorf("logged %q", text)
	}
}

func TestOpenTelemetryVariables(t *testing.T) {
	collector := tracingtest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", strings.Replace(collector.GRPC, "grpc", "http", 1))
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2")
	for _, test := range []struct {
		name, value string
		sender      string // "" if traces are disabled
	}{
		{"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test", "opsgate"},
		{"OTEL_SERVICE_NAME", "edge", "edge"},
		{"OTEL_SDK_DISABLED", "true", ""},
		{"OTEL_TRACES_EXPORTER", "none", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other")
			t.Setenv(test.name, test.value)
			r, before := open(t, ""), len(collector.Spans())
			if r.Provider != nil {
				r.record(1)
			}
			r.Close()
			spans := collector.Spans()[before:]
			if test.sender == "" {
				if len(spans) > 0 {
					t.Errorf("got %d spans", len(spans))
				}
				return
			}
			from := spans[0].From()
			if from["service.name"] != test.sender || from["deployment.environment.name"] != "test" {
				t.Errorf("sent by %v", from)
			}
			if got := collector.Headers()[0]["api-key"]; !slices.Equal(got, []string{"hunter2"}) {
				t.Errorf("the collector received %q", got)
			}
		})
	}
}

func TestNothingIsRecordedWithoutACollector(t *testing.T) {
	p, err := tracing.New(tracing.Options{Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if p != nil || err != nil {
		t.Fatal(p, err)
	}
	if p.Tracer(tracing.Settings{}) != nil || p.DialOptions() != nil || p.RedisHook(nil) != nil || p.Exemplar() != nil {
		t.Error("it records nevertheless")
	}
	p.Close()
}
