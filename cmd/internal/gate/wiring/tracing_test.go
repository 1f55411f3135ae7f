package wiring_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"opsgate/internal/testkit"
	"opsgate/internal/tracing/tracingtest"
)

func TestTraceCoversEdgeLimiterAndService(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("api-key=s3cret-of-the-collector"), 0o600))
	c := startTraced(t, tracedOptions{tracing: "sample: 100%, headers: \"${file:" + secret + "}\""})
	for range 2 {
		if got := c.get(t, c.Address(), "/v1/servers"); got.status != 200 {
			t.Fatalf("got %+v", got)
		}
	}
	metrics := c.get(t, c.AdminAddress(), "/metrics", "Accept", "application/openmetrics-text").body
	all := c.traces(t)
	if len(all) != 2 {
		t.Fatalf("got %d traces", len(all))
	}
	// The first request looks up the token and loads the script into Redis.
	sameTree(t, all[0], `
server GET /v1/servers
  internal token
    client ops.identity.v1.IdentityService/ResolveToken
  internal limits
    client EVALSHA (NOSCRIPT)
    client EVAL
  client ops.fleet.v1.FleetService/ListServers
`)
	sameTree(t, all[1], `
server GET /v1/servers
  internal token
  internal limits
    client EVALSHA
  client ops.fleet.v1.FleetService/ListServers
`)
	c.hasCalls(t, resolveToken, find(t, all[0], resolveToken[1:]))
	c.hasCalls(t, listServers, find(t, all[0], listServers[1:]), find(t, all[1], listServers[1:]))
	c.hasAttributes(t, all[1])
	c.isLogged(t, all)
	if !slices.Equal(c.collector.Headers()[0]["Api-Key"], []string{"s3cret-of-the-collector"}) || strings.Contains(c.log.String(), "s3cret") {
		t.Errorf("the collector received %q", c.collector.Headers()[0])
	}
	id := fmt.Sprintf("trace_id=\"%x\"", all[1][0].GetTraceId())
	for _, histogram := range []string{
		"opsgate_http_request_duration_seconds_bucket", "opsgate_upstream_request_duration_seconds_bucket",
		"opsgate_rate_limit_redis_call_duration_seconds_bucket",
	} {
		if !slices.ContainsFunc(strings.Split(metrics, "\n"), func(line string) bool {
			return strings.HasPrefix(line, histogram) && strings.Contains(line, id)
		}) {
			t.Errorf("no exemplar of %s has %s", histogram, id)
		}
	}
}

// find returns the only span with a name.
func find(t *testing.T, spans []tracingtest.Span, name string) tracingtest.Span {
	t.Helper()
	var found []tracingtest.Span
	for _, s := range spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are named %s", len(found), name)
	}
	return found[0]
}

// hasCalls checks that a method was called once for each span, with the span as its traceparent.
func (c *traced) hasCalls(t *testing.T, method string, spans ...tracingtest.Span) {
	t.Helper()
	calls := c.relay.Calls(method)
	if len(calls) != len(spans) {
		t.Fatalf("%s was called %d times, want %d", method, len(calls), len(spans))
	}
	for i, s := range spans {
		if want := fmt.Sprintf("00-%x-%x-01", s.GetTraceId(), s.GetSpanId()); calls[i].Traceparent != want {
			t.Errorf("call %d of %s has traceparent %q, want %q", i, method, calls[i].Traceparent, want)
		}
	}
}

// hasAttributes checks the attributes of the trace of a successful request. It accepts no others.
func (c *traced) hasAttributes(t *testing.T, spans []tracingtest.Span) {
	t.Helper()
	edge, redis, fleet := spans[0].Attributes(), find(t, spans, "EVALSHA").Attributes(), find(t, spans, listServers[1:]).Attributes()
	if len(redis["db.stored_procedure.name"]) != 40 {
		t.Errorf("the script is named %q", redis["db.stored_procedure.name"])
	}
	for _, id := range []string{"opsgate.team_id", "opsgate.token_id"} {
		if len(edge[id]) != 36 {
			t.Errorf("%s is %q", id, edge[id])
		}
	}
	delete(redis, "db.stored_procedure.name")
	delete(edge, "opsgate.team_id")
	delete(edge, "opsgate.token_id")
	_, port, _ := net.SplitHostPort(c.Address().String())
	_, redisPort, _ := net.SplitHostPort(c.redis.Addr())
	_, fleetPort, _ := net.SplitHostPort(c.relay.Address)
	for _, test := range []struct{ got, want map[string]string }{
		{edge, map[string]string{
			"http.request.method": "GET", "http.route": "/v1/servers", "http.response.status_code": "200", "url.scheme": "http",
			"url.path": "/v1/servers", "server.address": "127.0.0.1", "server.port": port, "client.address": "127.0.0.1",
			"network.peer.address": "127.0.0.1", "network.protocol.version": "1.1", "opsgate.route": "v1ListServers", "opsgate.code": "ok",
			"opsgate.limits": "default", "opsgate.limits_local": "false", "opsgate.limits_cached": "false",
		}},
		{redis, map[string]string{
			"db.system.name": "redis", "db.operation.name": "EVALSHA", "server.address": "127.0.0.1", "server.port": redisPort,
		}},
		{fleet, map[string]string{
			"rpc.system.name": "grpc", "rpc.method": "ops.fleet.v1.FleetService/ListServers", "rpc.response.status_code": "OK",
			"server.address": "127.0.0.1", "server.port": fleetPort, "network.peer.address": "127.0.0.1", "network.peer.port": fleetPort,
			"opsgate.attempt": "1",
		}},
	} {
		if diff := gocmp.Diff(test.want, test.got); diff != "" {
			t.Error(diff)
		}
	}
	if from := spans[0].From(); from["service.name"] != "opsgate" || from["service.version"] != "1.2.3" {
		t.Errorf("sent by %v", from)
	}
}

// isLogged checks that the log line of each request has its trace.
func (c *traced) isLogged(t *testing.T, traces [][]tracingtest.Span) {
	t.Helper()
	var got []string
	for line := range strings.Lines(c.log.String()) {
		var l struct {
			Msg     string
			TraceID string `json:"trace_id"`
			SpanID  string `json:"span_id"`
		}
		testkit.Must(t, json.Unmarshal([]byte(line), &l))
		if l.Msg == "request" {
			got = append(got, l.TraceID+" "+l.SpanID)
		}
	}
	var want []string
	for _, spans := range traces {
		want = append(want, fmt.Sprintf("%x %x", spans[0].GetTraceId(), spans[0].GetSpanId()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

func TestEachAttemptHasASpan(t *testing.T) {
	c := startTraced(t, tracedOptions{tracing: "sample: 100%"})
	c.relay.Fail(listServers, 1)
	if got := c.get(t, c.Address(), "/v1/servers"); got.status != 200 {
		t.Fatalf("got %+v", got)
	}
	all := c.traces(t)
	sameTree(t, all[0], `
server GET /v1/servers
  internal token
    client ops.identity.v1.IdentityService/ResolveToken
  internal limits
    client EVALSHA (NOSCRIPT)
    client EVAL
  client ops.fleet.v1.FleetService/ListServers (UNAVAILABLE)
  client ops.fleet.v1.FleetService/ListServers
`)
	var attempts []tracingtest.Span
	for _, s := range all[0] {
		if s.GetName() == listServers[1:] {
			attempts = append(attempts, s)
			if n := s.Attributes()["opsgate.attempt"]; n != strconv.Itoa(len(attempts)) {
				t.Errorf("attempt %d has number %s", len(attempts), n)
			}
		}
	}
	c.hasCalls(t, listServers, attempts...)
	if got := attempts[0].GetStatus().GetCode(); got != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the failed attempt has %v", got)
	}
	if got := all[0][0].GetStatus().GetCode(); got != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("the request has %v", got)
	}
}

func TestTraceShowsABreakerRefusal(t *testing.T) {
	c := startTraced(t, tracedOptions{
		tracing: "sample: 100%",
		more:    "upstream_calls: {breaker: {min_requests: 1, failure_rate: 1%, open_for: 1m}, retries: {max: 0}}\n",
	})
	c.relay.Fail(listServers, 1000)
	testkit.Eventually(t, "the breaker refuses a call", func() bool {
		before := len(c.relay.Calls(listServers))
		if got := c.get(t, c.Address(), "/v1/servers"); got.status != 503 {
			t.Fatalf("got %+v", got)
		}
		return len(c.relay.Calls(listServers)) == before
	})
	all := c.traces(t)
	refused := all[len(all)-1]
	sameTree(t, refused, `
server GET /v1/servers (unavailable)
  internal token
  internal limits
    client EVALSHA
  internal ops.fleet.v1.FleetService/ListServers (BREAKER_OPEN)
`)
	if got := refused[0].GetStatus().GetCode(); got != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the request has %v", got)
	}
}

func TestTraceShowsADenial(t *testing.T) {
	c := startTraced(t, tracedOptions{tracing: "sample: 100%", limit: 1})
	testkit.Eventually(t, "it is subscribed to refunds, which removes cached denials, and pings the subscription", func() bool {
		subscriptions := c.redis.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "PUBSUB").String()
		return strings.Contains(subscriptions, " sub=1 ") && strings.Contains(subscriptions, " cmd=ping ")
	})
	for i, want := range []int{200, 429, 429} {
		if got := c.get(t, c.Address(), "/v1/servers"); got.status != want {
			t.Fatalf("%d: got %+v", i, got)
		}
	}
	all := c.traces(t)
	sameTree(t, all[1], "server GET /v1/servers\n  internal token\n  internal limits\n    client EVALSHA\n")
	sameTree(t, all[2], "server GET /v1/servers\n  internal token\n  internal limits\n") // the denial is cached
	for i, cached := range []string{"false", "true"} {
		got := all[i+1][0]
		if a := got.Attributes(); a["http.response.status_code"] != "429" || a["opsgate.denied_by"] != "minute" ||
			a["opsgate.limits_cached"] != cached || a["opsgate.code"] != "rate_limited" {
			t.Errorf("got %v", a)
		}
		if got.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_UNSET {
			t.Error("a denial has the status of an error")
		}
	}
}

// A trace of a trusted caller is continued.
func TestReloadChangesTheSettingsOfTraces(t *testing.T) {
	const traceID, parent = "0af7651916cd43dd8448eb211c80319c", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c := startTraced(t, tracedOptions{tracing: "sample: 0%"})
	c.get(t, c.Address(), "/v1/servers", "Traceparent", parent)
	if calls := c.relay.Calls(listServers); calls[0].Traceparent != "" {
		t.Errorf("the service received a traceparent without a trace: %q", calls[0].Traceparent)
	}
	c.tracing = "sample: 0%, trust_parent: always"
	testkit.Must(t, c.reload(t, c.configuration()))
	c.get(t, c.Address(), "/v1/servers", "Traceparent", parent)
	c.tracing = "sample: 100%"
	testkit.Must(t, c.reload(t, c.configuration()))
	c.get(t, c.Address(), "/v1/monitors")
	c.tracing += ", headers: a=b"
	if err := c.reload(t, c.configuration()); err == nil || !strings.Contains(err.Error(), "tracing.headers: ") {
		t.Errorf("other headers: got %v", err)
	}
	all := c.traces(t)
	if len(all) != 2 || fmt.Sprintf("%x", all[0][0].GetTraceId()) != traceID || all[1][0].GetName() != "GET /v1/monitors" {
		t.Fatalf("got %v", all)
	}
	if calls := c.relay.Calls(listServers); !strings.HasPrefix(calls[1].Traceparent, "00-"+traceID) {
		t.Errorf("the service received %q", calls[1].Traceparent)
	}
}
