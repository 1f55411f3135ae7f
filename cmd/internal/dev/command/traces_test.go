package command_test

import (
	"os"
	"path/filepath"
	"testing"

	"opsgate/cmd/internal/dev/inbox"
	"opsgate/cmd/internal/kit/tracing/tracingtest"
	"opsgate/cmd/internal/test/testkit"
)

// The backend records to the collector of the gateway's configuration.
func TestDeliveriesAreInTheTraceOfTheirRequest(t *testing.T) {
	collector := tracingtest.Start(t)
	file := filepath.Join(t.TempDir(), "opsgate.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("tracing: {endpoint: "+collector.HTTP+", sample: 100%}\n"), 0o600))
	s := start(t, "--config="+file)
	s.openIncident(t, "Traced")
	s.awaitMessages(t, 7, func(m inbox.Summary) bool { return m.Attempt == 1 })
	s.end(t) // sends the last spans

	traces := map[string]map[string]int{} // names of spans by trace and service
	for _, span := range collector.Spans() {
		id := string(span.GetTraceId())
		if traces[id] == nil {
			traces[id] = map[string]int{}
		}
		traces[id][span.From()["service.name"]+": "+span.GetName()]++
	}
	for _, names := range traces {
		if names["opsgate: POST /v1/incidents"] == 0 {
			continue
		}
		if names["opsbackend: ops.incident.v1.IncidentService/CreateIncident"] != 1 || names["opsbackend: deliver notification"] < 7 {
			t.Errorf("the trace of the request has %v", names)
		}
		return
	}
	t.Errorf("no trace of the request in %v", traces)
}
