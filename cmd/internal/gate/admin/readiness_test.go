package admin

import (
	"slices"
	"strings"
	"testing"
)

func TestReadiness(t *testing.T) {
	ready, lost, wrong := &Dependency{Name: "fleet", OK: true}, &Dependency{Name: "audit"}, &Dependency{Name: "fleet", notReady: true}
	for _, test := range []struct {
		name         string
		dependencies []*Dependency
		steps        func(*Admin)
		want         string
	}{
		{"starting", []*Dependency{ready}, func(*Admin) {}, "starting"},
		{"serving", []*Dependency{ready}, (*Admin).Serving, "ready"},
		{"serving with an unavailable service", []*Dependency{ready, lost}, (*Admin).Serving, "degraded"},
		{"serving with a wrong service", []*Dependency{lost, wrong}, (*Admin).Serving, "not_ready"},
		{"draining with a wrong service", []*Dependency{lost, wrong}, func(a *Admin) { a.Serving(); a.Draining() }, "draining"},
		{"draining before it served", []*Dependency{ready}, func(a *Admin) { a.Draining(); a.Serving() }, "draining"},
	} {
		a := new(Admin)
		test.steps(a)
		if got := a.status(test.dependencies); got != test.want {
			t.Errorf("%s: got %s", test.name, got)
		}
	}
}

// The readiness page and the metrics agree in each phase, in which the gateway is alive.
func TestPhases(t *testing.T) {
	o := options(t)
	registry := newMetrics()
	o.Metrics = registry
	o.Capacities = []Capacity{{Name: "capacity", Stats: func() (int, int, uint64) { return 1, 2, 0 }}}
	a := New(o)
	registry.MustRegister(a)
	for _, phase := range []struct {
		step   func()
		status int
		state  string
	}{{func() {}, 503, "starting"}, {a.Serving, 200, "ready"}, {a.Draining, 503, "draining"}} {
		phase.step()
		want := `{"status":"` + phase.state + `","dependencies":{"capacity":{"state":"ready"},"revocations":{"state":"ready"}}}` + "\n"
		if got := send(a, "GET", "/readyz"); got.Code != phase.status || got.Body.String() != want {
			t.Errorf("got %d %s", got.Code, got.Body)
		}
		if got := send(a, "GET", "/livez"); got.Code != 200 || got.Body.String() != "ok\n" {
			t.Errorf("got %d %q", got.Code, got.Body)
		}
		var lines []string
		for line := range strings.Lines(send(a, "GET", "/metrics").Body.String()) {
			if strings.HasPrefix(line, "opsgate_readiness{") && strings.HasSuffix(line, " 1\n") || strings.HasPrefix(line, "opsgate_dependency_ok{") {
				lines = append(lines, line)
			}
		}
		if !slices.Equal(lines, []string{`opsgate_dependency_ok{dependency="capacity"} 1` + "\n", `opsgate_dependency_ok{dependency="revocations"} 1` + "\n",
			`opsgate_readiness{state="` + phase.state + `"} 1` + "\n"}) {
			t.Errorf("the metrics are %q", lines)
		}
	}
}

func TestPaths(t *testing.T) {
	a := New(options(t))
	for _, test := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"GET", "/debug/pprof/cmdline", 200, ""},
		{"GET", "/debug/pprof/symbol", 200, "num_symbols"},
		{"GET", "/v1/servers", 404, ""},
		{"GET", "/admin", 404, ""},
		{"POST", "/readyz", 405, ""},
	} {
		got := send(a, test.method, test.path)
		if got.Code != test.status || !strings.Contains(got.Body.String(), test.contains) {
			t.Errorf("%s %s: got %d %.200q", test.method, test.path, got.Code, got.Body)
		}
		if sniff := got.Header()["X-Content-Type-Options"]; !slices.Equal(sniff, []string{"nosniff"}) {
			t.Errorf("%s %s: X-Content-Type-Options %q", test.method, test.path, sniff)
		}
	}
}
