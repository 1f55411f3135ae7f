package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/internal/testkit"
)

// mustCount compares the counters of one name that are not zero with want, by their label values.
func mustCount(t *testing.T, h *harness, name string, want map[string]float64) {
	t.Helper()
	families, err := h.registry.Gather()
	testkit.Must(t, err)
	counts, found := map[string]float64{}, false
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		found = true
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if n := m.GetCounter().GetValue(); n != 0 {
				counts[strings.Join(labels, " ")] = n
			}
		}
	}
	if !found {
		t.Fatalf("there is no %s", name)
	}
	if want == nil {
		want = map[string]float64{}
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

// A reload creates a Gateway with the same metrics. All outcomes of a limit exist before they first
// occur.
func TestMetricsContinueAfterReload(t *testing.T) {
	h := start(t)
	h.get(t, "/v1/me")
	o := optionsWith(t, h.services)
	o.Metrics = h.gateway.options.Metrics
	next, err := New(o)
	testkit.Must(t, err)
	h.Config.Handler = next
	h.get(t, "/v1/me")
	mustCount(t, h, "opsgate_http_requests_total", map[string]float64{" ok v1Me 200": 2})
	mustCount(t, h, "opsgate_rate_limit_decisions_total", map[string]float64{"second admitted default": 2})
}
