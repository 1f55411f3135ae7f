package tracing_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
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

func TestTrustInIncomingTraceContext(t *testing.T) {
	const (
		traceID = "0af7651916cd43dd8448eb211c80319c"
		yes     = "00-" + traceID + "-b7ad6b7169203331-01"
		no      = "00-" + traceID + "-b7ad6b7169203331-00"
	)
	r := open(t, "http://127.0.0.1:1")
	defer r.Close()
	here := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // of httptest
	for _, test := range []struct {
		name                       string
		settings                   tracing.Settings
		parent                     string
		recorded, followed, linked bool // followed: the trace of the caller is that of the calls
	}{
		{"untrusted caller", tracing.Settings{Sample: 1, Trust: tracing.TrustProxies}, yes, true, false, true},
		{"untrusted caller without sampling", tracing.Settings{Trust: tracing.TrustProxies}, yes, false, false, false},
		{"trust never", tracing.Settings{Sample: 1, Proxies: here}, yes, true, false, true},
		{"trusted proxy", tracing.Settings{Trust: tracing.TrustProxies, Proxies: here}, yes, true, true, false},
		{"trusted proxy does not sample", tracing.Settings{Sample: 1, Trust: tracing.TrustProxies, Proxies: here}, no, false, true, false},
		{"trust always", tracing.Settings{Trust: tracing.TrustAlways}, yes, true, true, false},
		{"invalid traceparent", tracing.Settings{Sample: 1, Trust: tracing.TrustAlways}, "00-nonsense-01", true, false, false},
	} {
		req := httptest.NewRequest(http.MethodGet, "/v1/servers", http.NoBody)
		req.Header.Set("Traceparent", test.parent)
		req.Header.Set("Tracestate", "vendor=1")
		ctx, request := r.Tracer(test.settings).Trace(t.Context(), req, "/v1/servers")
		at := trace.SpanContextFromContext(ctx)
		followed := at.TraceID().String() == traceID
		if (request != nil) != test.recorded || followed != test.followed || (at.TraceState().String() == "vendor=1") != followed {
			t.Errorf("%s: recorded: %t, in trace %s with state %q", test.name, request != nil, at.TraceID(), at.TraceState())
		}
		if request == nil {
			continue
		}
		links := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan).Links()
		linked := len(links) == 1 && links[0].SpanContext.TraceID().String() == traceID && links[0].SpanContext.TraceState().Len() == 0
		if linked != test.linked {
			t.Errorf("%s: links %v", test.name, links)
		}
		request.End(http.StatusOK, "")
	}
}

// A trusted proxy may forward the trace state of a client.
func TestATraceStateWithATokenIsDropped(t *testing.T) {
	r := open(t, "http://127.0.0.1:1")
	defer r.Close()
	tracer := r.Tracer(tracing.Settings{Trust: tracing.TrustAlways, LiveTokenPrefix: "ops_live_"})
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
