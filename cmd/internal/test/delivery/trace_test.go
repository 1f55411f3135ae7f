package delivery

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"testing"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/kit/tracing/tracingtest"
)

// A request, the call that it made, and the deliveries that it caused are one trace.
func TestDeliveriesAreInTheTraceOfTheirRequest(t *testing.T) {
	collector := tracingtest.Start(t)
	variables := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.HTTP, "OTEL_BSP_SCHEDULE_DELAY=100"} // milliseconds
	to := startReceivers(t, nil)
	p := newPage(t, to, 2)
	backend, err := service.Open(t.Context(), service.Options{DataDir: p.data})
	testkit.Must(t, err)
	token := newToken(t, backend, p)
	testkit.Must(t, backend.Close())
	s := startService(t, p.data, to, variables...)
	c := startGateway(t, s.address, token, variables...)

	status, body := c.do(http.MethodPost, "/v1/incidents", fmt.Sprintf(
		`{"title":"Slow","status":"investigating","impact":"minor","message":"mark-1-0","statusPageId":%q}`, p.id))
	if status != http.StatusOK {
		t.Fatalf("got %d %s", status, body)
	}
	testkit.Eventually(t, "an email and a webhook arrive", func() bool { return to.count() == 2 })
	post := "POST /v1/incidents"
	testkit.Eventually(t, "all spans arrive", func() bool {
		return len(named(collector.Spans(), post)) == 1 && len(named(collector.Spans(), deliverSpan)) == 2
	})
	request := named(collector.Spans(), post)[0]
	byID := map[string]tracingtest.Span{}
	for _, span := range collector.Spans() {
		byID[string(span.GetSpanId())] = span
	}
	for _, delivery := range named(collector.Spans(), deliverSpan) {
		var path []string
		for span, found := delivery, true; found; span, found = byID[string(span.GetParentSpanId())] {
			path = append(path, span.From()["service.name"]+": "+span.GetName())
			if string(span.GetTraceId()) != string(request.GetTraceId()) {
				t.Errorf("%s is in another trace", span.GetName())
			}
		}
		const create = "ops.incident.v1.IncidentService/CreateIncident"
		want := []string{"opsbackend: " + delivery.GetName(), "opsbackend: " + create, "opsgate: " + create, "opsgate: " + post}
		if fmt.Sprint(path) != fmt.Sprint(want) {
			t.Errorf("a delivery has the path %q, want %q", path, want)
		}
	}
	for _, secret := range []string{token, p.subscribers[0], p.subscribers[1]} {
		if collector.Contains(t, secret) {
			t.Errorf("a span has %s", secret)
		}
	}
}

// deliverSpan is the name of the span of an attempt.
const deliverSpan = "deliver notification"

// named returns the spans with a name.
func named(spans []tracingtest.Span, name string) (found []tracingtest.Span) {
	for _, span := range spans {
		if span.GetName() == name {
			found = append(found, span)
		}
	}
	return found
}

// newToken creates a token that may do everything.
func newToken(t *testing.T, backend *service.Backend, p *page) string {
	t.Helper()
	token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
	testkit.Must(t, err)
	_, err = backend.CreateToken(t.Context(), service.NewToken{
		TeamID: p.team, Name: "test", SHA256: authn.Hash(token), Scopes: authn.NewScopes(authn.AllScopes()...).Strings(),
	})
	testkit.Must(t, err)
	return token
}
