package tracing_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"opsgate/internal/tracing"
)

func TestTheSampledFractionIsRecorded(t *testing.T) {
	r := open(t, "http://127.0.0.1:1")
	defer r.Close()
	req := httptest.NewRequest(http.MethodGet, "/v1/servers", http.NoBody)
	for _, sample := range []float64{0, 0.01, 0.25, 1} {
		const requests = 40_000
		tracer, recorded := r.Tracer(tracing.Settings{Sample: sample}), 0.0
		for range requests {
			if _, request := tracer.Trace(t.Context(), req, "/v1/servers"); request != nil {
				recorded++
			}
		}
		// Six standard deviations: once in 500 million runs.
		if most := 6 * math.Sqrt(requests*sample*(1-sample)); math.Abs(recorded-requests*sample) > most {
			t.Errorf("of %d requests at %v, %v were recorded", requests, sample, recorded)
		}
	}
}

// A trusted proxy may forward the trace state of a client.
func TestATraceStateWithATokenIsDropped(t *testing.T) {
	r := open(t, "http://127.0.0.1:1")
	defer r.Close()
	tracer := r.Tracer(tracing.Settings{Trust: tracing.TrustAlways, TokenPrefix: "ops_live_"})
	for _, sampled := range []string{"00", "01"} {
		for state, want := range map[string]string{"vendor=1": "vendor=1", "vendor=1,token=ops_live_x": "", "ops_live_x=1": ""} {
			req := httptest.NewRequest(http.MethodGet, "/v1/servers", http.NoBody)
			req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"+sampled)
			req.Header.Set("Tracestate", state)
			ctx, request := tracer.Trace(t.Context(), req, "/v1/servers")
			at := trace.SpanContextFromContext(ctx)
			if got := at.TraceState().String(); got != want || at.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
				t.Errorf("%s, %s: got %q of %s", sampled, state, got, at.TraceID())
			}
			if request != nil {
				request.End(http.StatusOK, "")
			}
		}
	}
}

// The kernel reports a link-local peer with its zone, and no prefix contains an address with one.
func TestALinkLocalProxyIsTrusted(t *testing.T) {
	r := open(t, "http://127.0.0.1:1")
	defer r.Close()
	proxies := []netip.Prefix{netip.MustParsePrefix("fe80::9/128")}
	tracer := r.Tracer(tracing.Settings{Trust: tracing.TrustProxies, Proxies: proxies})
	for peer, trusted := range map[string]bool{"[fe80::9%eth0]:1234": true, "[fe80::1%eth0]:1234": false} {
		req := httptest.NewRequest(http.MethodGet, "/v1/servers", http.NoBody)
		req.RemoteAddr = peer
		req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
		ctx, _ := tracer.Trace(t.Context(), req, "/v1/servers")
		if got := trace.SpanContextFromContext(ctx).IsValid(); got != trusted {
			t.Errorf("%s: the trace is continued: %v", peer, got)
		}
	}
}
