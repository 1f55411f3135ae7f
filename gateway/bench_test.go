package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/gateway/jsonw"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

// BenchmarkMiddleware measures a request without HTTP and without a service: engine, stages,
// headers, ETag, metrics and the log line.
func BenchmarkMiddleware(b *testing.B) { benchmarkMiddleware(b, nil) }

// BenchmarkMiddlewareUntraced measures the same with a Tracer that does not trace the request.
func BenchmarkMiddlewareUntraced(b *testing.B) { benchmarkMiddleware(b, noTraces{}) }

// noTraces reads the header that decides whether to trace a request, and traces none.
type noTraces struct{}

func (noTraces) Start(ctx context.Context, req *http.Request, _ string) (context.Context, Trace) {
	if len(req.Header["Traceparent"]) > 0 {
		panic("the benchmark's requests come from no trace")
	}
	return ctx, nil
}

func benchmarkMiddleware(b *testing.B, tracer Tracer) {
	b.Helper()
	o := optionsWith(b, &services{})
	o.Tracer = tracer
	o.Logger = slog.New(slog.NewJSONHandler(&discardWriter{}, nil))
	g, err := New(o)
	testkit.Must(b, err)
	row := Route{ID: "bench", Method: "GET", Path: "/v1/bench/:id", Scope: "servers:read", Handle: func(*Request) (Reply, error) {
		return show(func(w *jsonw.Writer) { w.BeginObject(); w.EndObject() })
	}}
	g.engine = gin.New()
	g.engine.GET(row.Path, g.handlerFor(g.bind(row, apiStages)))
	serveInParallel(b, g, "/v1/bench/"+someID)
}

// serveInParallel measures one request and discards the responses.
func serveInParallel(b *testing.B, g *Gateway, path string) {
	b.Helper()
	req := httptest.NewRequest("GET", path, nil)
	req.Header.Set("Authorization", "Bearer full")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		w := &discardWriter{header: make(http.Header)}
		for pb.Next() {
			clear(w.header)
			g.ServeHTTP(w, req)
		}
	})
}

// BenchmarkOverHTTP measures a request over one connection. Its allocations show the cost of the
// number of headers.
func BenchmarkOverHTTP(b *testing.B) {
	for name, view := range map[string]View{
		"small":     func(w *jsonw.Writer) { w.BeginObject(); w.EndObject() },
		"20servers": list(manyServers(20).Servers, encodeServer),
	} {
		b.Run(name, func(b *testing.B) {
			g, err := New(optionsWith(b, &services{}))
			testkit.Must(b, err)
			row := Route{ID: "bench", Method: "GET", Path: "/v1/bench", Scope: anyToken, Handle: func(*Request) (Reply, error) { return show(view) }}
			g.engine = gin.New()
			g.engine.GET(row.Path, g.handlerFor(g.bind(row, apiStages)))
			server := httptest.NewServer(g)
			defer server.Close()
			conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", server.Listener.Addr().String())
			testkit.Must(b, err)
			defer func() { _ = conn.Close() }()
			answer := bufio.NewReader(conn)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.WriteString(conn, "GET /v1/bench HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer full\r\n\r\n"); err != nil {
					b.Fatal(err)
				}
				skipAnswer(b, answer)
			}
		})
	}
}

// skipAnswer reads a response with a Content-Length, without allocating.
func skipAnswer(b *testing.B, r *bufio.Reader) {
	b.Helper()
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		testkit.Must(b, err)
		if len(line) <= len("\r\n") {
			break
		}
		if rest, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			for _, digit := range bytes.TrimSpace(rest) {
				length = 10*length + int(digit-'0')
			}
		}
	}
	if n, err := r.Discard(length); err != nil || length == 0 {
		b.Fatal(n, err)
	}
}

// BenchmarkNew measures the construction of a Gateway, as in a reload, with a thousand overrides of
// limits.
func BenchmarkNew(b *testing.B) {
	o := optionsWith(b, &services{})
	overrides := make([]ratelimit.Assignment, 1000)
	for i := range overrides {
		name := fmt.Sprint("token-", i)
		overrides[i] = ratelimit.Assignment{
			Class: ratelimit.ClassToken, Key: name, Tokens: []string{name},
			Policy: policy(b, ratelimit.Limit{Name: "second", Requests: i + 1, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour}),
		}
	}
	all, err := ratelimit.NewPolicies(ratelimit.Assignment{Policy: policy(b, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second})}, overrides...)
	testkit.Must(b, err)
	o.Policies, o.Metrics = all, newMetrics()
	for b.Loop() {
		if _, err := New(o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDenied measures a request that a limit denies.
func BenchmarkDenied(b *testing.B) {
	o := optionsWith(b, &services{})
	o.Policies = policies(b, ratelimit.Limit{Name: "hour", Requests: 1, Per: time.Hour})
	o.Logger = slog.New(slog.NewJSONHandler(&discardWriter{}, nil))
	g, err := New(o)
	testkit.Must(b, err)
	serveInParallel(b, g, "/v1/me")
}
