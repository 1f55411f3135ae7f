package wiring_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"opsgate/internal/testkit"
	"opsgate/internal/tracing/tracingtest"
)

func TestTrustInIncomingTraceContext(t *testing.T) {
	const (
		traceID = "0af7651916cd43dd8448eb211c80319c"
		spanID  = "b7ad6b7169203331"
		yes     = "00-" + traceID + "-" + spanID + "-01"
		no      = "00-" + traceID + "-" + spanID + "-00"
		proxies = "trusted_proxies: [127.0.0.0/8]\n"
	)
	backend := startReference(t)
	for _, test := range []struct {
		name, tracing, more string
		parent              string
		recorded, followed  bool   // followed: the span belongs to the trace of the caller
		sent                string // traceparent that the service receives
	}{
		{"untrusted caller", "sample: 100%, trust_parent: proxies", "", yes, true, false, ""},
		{"untrusted caller without sampling", "sample: 0%, trust_parent: proxies", "", yes, false, false, ""},
		{"trust never", "sample: 100%, trust_parent: never", proxies, yes, true, false, ""},
		{"trusted proxy", "sample: 0%, trust_parent: proxies", proxies, yes, true, true, ""},
		{"trusted proxy does not sample", "sample: 100%, trust_parent: proxies", proxies, no, false, false, no},
		{"trust always", "sample: 0%, trust_parent: always", "", yes, true, true, ""},
		{"invalid traceparent", "sample: 100%, trust_parent: always", "", "00-nonsense-01", true, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := startTraced(t, tracedOptions{tracing: test.tracing, more: test.more, reference: backend})
			if got := c.get(t, c.Address(), "/v1/servers", "Traceparent", test.parent, "Tracestate", "vendor=1"); got.status != 200 {
				t.Fatalf("got %+v", got)
			}
			all := c.traces(t)
			calls := c.relay.Calls(listServers)
			if !test.recorded {
				if len(all) != 0 || calls[0].Traceparent != test.sent {
					t.Errorf("got %d traces, and the service received %q", len(all), calls[0].Traceparent)
				}
				return
			}
			edge := all[0][0]
			if followed := fmt.Sprintf("%x-%x", edge.GetTraceId(), edge.GetParentSpanId()) == traceID+"-"+spanID; followed != test.followed {
				t.Errorf("trace %x, parent %x", edge.GetTraceId(), edge.GetParentSpanId())
			}
			if want := map[bool]string{true: "vendor=1"}[test.followed]; calls[0].Tracestate != want {
				t.Errorf("the service received the state %q", calls[0].Tracestate)
			}
			c.hasCalls(t, listServers, find(t, all[0], listServers[1:]))
			linked := len(edge.GetLinks()) == 1 && fmt.Sprintf("%x", edge.GetLinks()[0].GetTraceId()) == traceID &&
				edge.GetLinks()[0].GetTraceState() == ""
			if want := !test.followed && test.parent == yes; linked != want {
				t.Errorf("links: %v", edge.GetLinks())
			}
		})
	}
}

func TestReloadChangesTheTraceSample(t *testing.T) {
	c := startTraced(t, tracedOptions{tracing: "sample: 0%"})
	c.get(t, c.Address(), "/v1/servers")
	if calls := c.relay.Calls(listServers); calls[0].Traceparent != "" {
		t.Errorf("the service received a traceparent without a trace: %q", calls[0].Traceparent)
	}
	c.tracing = "sample: 100%"
	c.write(t, c.configuration())
	testkit.Must(t, c.Reload("the test"))
	c.get(t, c.Address(), "/v1/monitors")
	c.endpoint = byGRPC
	c.write(t, c.configuration())
	if err := c.Reload("the test"); err == nil || !strings.Contains(err.Error(), "tracing.endpoint: a change needs a restart") {
		t.Errorf("another endpoint: got %v", err)
	}
	if all := c.traces(t); len(all) != 1 || all[0][0].GetName() != "GET /v1/monitors" {
		t.Errorf("got %v", all)
	}
}

func TestOpenTelemetryVariables(t *testing.T) {
	backend := startReference(t)
	for _, test := range []struct {
		name      string
		variables map[string]string
		recorded  bool
	}{
		{"an endpoint", nil, true},
		{"its name", map[string]string{
			"OTEL_SERVICE_NAME": "edge", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.name=other",
		}, true},
		{"disabled", map[string]string{"OTEL_SDK_DISABLED": "true"}, false},
		{"no exporter", map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := startTraced(t, tracedOptions{tracing: "sample: 100%", reference: backend, endpoint: func(c *tracingtest.Collector) string {
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", strings.Replace(c.GRPC, "grpc", "http", 1))
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
				t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2")
				for name, value := range test.variables {
					t.Setenv(name, value)
				}
				return ""
			}})
			c.get(t, c.Address(), "/v1/servers")
			c.finish(t)
			spans := c.collector.Spans()
			if recorded := len(spans) > 0; recorded != test.recorded {
				t.Fatalf("got %d spans", len(spans))
			}
			if !test.recorded {
				return
			}
			if got := c.collector.Headers()[0]["api-key"]; !slices.Equal(got, []string{"hunter2"}) {
				t.Errorf("the collector received %q", got)
			}
			from := spans[0].From()
			if want := cmp.Or(test.variables["OTEL_SERVICE_NAME"], "opsgate"); from["service.name"] != want {
				t.Errorf("sent by %v", from)
			}
			if _, given := test.variables["OTEL_RESOURCE_ATTRIBUTES"]; given && from["deployment.environment.name"] != "test" {
				t.Errorf("sent by %v", from)
			}
		})
	}
}
