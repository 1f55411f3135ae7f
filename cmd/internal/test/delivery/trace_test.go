package delivery

import (
	"encoding/hex"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/kit/tracing/tracingtest"
)

// The process exports the spans of a call and of the deliveries that it caused, all in the trace of the caller.
func TestDeliveriesAreInTheTraceOfTheirRequest(t *testing.T) {
	collector := tracingtest.Start(t)
	to := startReceivers(t, nil)
	p := newPage(t, to, 2)
	s := startService(t, p.data, to, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.HTTP, "OTEL_BSP_SCHEDULE_DELAY=100") // milliseconds
	const trace = "0af7651916cd43dd8448eb211c80319c"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	_, err := s.incident.CreateIncident(ctx, p.incident("mark-1-0"))
	testkit.Must(t, err)
	testkit.Eventually(t, "all spans arrive", func() bool { return len(collector.Spans()) >= 3 })
	var names []string
	for _, span := range collector.Spans() {
		names = append(names, span.From()["service.name"]+": "+span.GetName())
		if got := hex.EncodeToString(span.GetTraceId()); got != trace {
			t.Errorf("%s is in the trace %s", span.GetName(), got)
		}
	}
	slices.Sort(names)
	const delivered = "opsbackend: deliver notification"
	if want := []string{delivered, delivered, "opsbackend: ops.incident.v1.IncidentService/CreateIncident"}; !slices.Equal(names, want) {
		t.Errorf("got spans %q, want %q", names, want)
	}
	for _, address := range p.subscribers {
		if collector.Contains(t, address) {
			t.Errorf("a span has %s", address)
		}
	}
}
