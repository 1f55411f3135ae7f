package gateway

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// mustCount compares the counters of one name that are not zero with want, by their label values.
func mustCount(t *testing.T, h *harness, name string, want map[string]float64) {
	t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
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

func TestMetricsAreCounted(t *testing.T) {
	h := start(t)
	for range 3 {
		h.get(t, "/v1/me")
	}
	h.do(t, "", "GET", "/v1/me", "")
	mustCount(t, h, "opsgate_http_requests_total", map[string]float64{" ok v1Me 200": 3, "token:missing unauthorized v1Me 401": 1})
}

func TestMetricNamesFollowPrometheusConventions(t *testing.T) {
	h := start(t)
	h.get(t, "/v1/me")
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) < 10 {
		t.Errorf("only %d metrics are gathered", len(families))
	}
	identifier := regexp.MustCompile(`[a-z][A-Z]`)
	for _, f := range families {
		if identifier.MatchString(f.GetHelp()) {
			t.Errorf("%s: the help text contains an identifier: %s", f.GetName(), f.GetHelp())
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %+v", err, problems)
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the same metrics were registered twice")
	}
}

// A reload creates a Gateway with the same metrics. All outcomes of a limit exist before they first occur.
func TestMetricsContinueAfterReload(t *testing.T) {
	h := start(t)
	h.get(t, "/v1/me")
	o := optionsWith(t, h.services)
	o.Metrics = h.gateway.options.Metrics
	next, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h.Config.Handler = next
	h.get(t, "/v1/me")
	mustCount(t, h, "opsgate_http_requests_total", map[string]float64{" ok v1Me 200": 2})
	mustCount(t, h, "opsgate_rate_limit_decisions_total", map[string]float64{"second admitted default": 2})
}
