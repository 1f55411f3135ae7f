package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/buildinfo"
)

// start returns an Admin with dependencies that a test may change.
func start(dependencies map[string]admin.Dependency) *admin.Admin {
	o, registry := options(), admin.NewRegistry(buildinfo.Info{Version: "1.2.3", Revision: "abc", GoVersion: "go1.26"})
	o.Metrics, o.Dependencies = registry, func() map[string]admin.Dependency { return dependencies }
	a := admin.New(o)
	registry.MustRegister(a.Readiness())
	return a
}

func TestReadiness(t *testing.T) {
	fleet := map[string]admin.Dependency{"fleet": {State: "ready", OK: true}}
	degraded := map[string]admin.Dependency{"fleet": {State: "ready", OK: true}, "audit": {State: "unavailable"}}
	wrong := map[string]admin.Dependency{"audit": {State: "unavailable"}, "fleet": {State: "wrong service", NotReady: true}, "identity": {State: "idle"}}
	for _, test := range []struct {
		name         string
		dependencies map[string]admin.Dependency
		steps        func(*admin.Admin)
		status       int
		want         string
	}{
		{"starting", fleet, func(*admin.Admin) {}, 503, "starting"},
		{"serving", fleet, (*admin.Admin).Serving, 200, "ready"},
		{"serving with an unavailable service", degraded, (*admin.Admin).Serving, 200, "degraded"},
		{"serving with a wrong service", wrong, (*admin.Admin).Serving, 503, "not_ready"},
		{"draining with a wrong service", wrong, func(a *admin.Admin) { a.Serving(); a.Draining() }, 503, "draining"},
		{"draining", fleet, func(a *admin.Admin) { a.Serving(); a.Draining() }, 503, "draining"},
		{"draining with an unavailable service", degraded, func(a *admin.Admin) { a.Serving(); a.Draining() }, 503, "draining"},
		{"draining before it served", fleet, func(a *admin.Admin) { a.Draining(); a.Serving() }, 503, "draining"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := start(test.dependencies)
			test.steps(a)
			got := send(a, http.MethodGet, "/readyz")
			var body struct {
				Status       string
				Dependencies map[string]struct{ State string }
			}
			testkit.Must(t, json.Unmarshal(got.Body.Bytes(), &body))
			if got.Code != test.status || body.Status != test.want || len(body.Dependencies) != len(test.dependencies) {
				t.Errorf("got %d %s", got.Code, got.Body)
			}
			for name, d := range test.dependencies {
				if body.Dependencies[name].State != d.State {
					t.Errorf("%s: got %q", name, body.Dependencies[name].State)
				}
			}
			if got, want := readinessMetrics(a), wantedMetrics(test.want, test.dependencies); !slices.Equal(got, want) {
				t.Errorf("the metrics are %q, want %q", got, want)
			}
		})
	}
}

// readinessMetrics returns the sorted lines of the readiness metrics.
func readinessMetrics(a *admin.Admin) []string {
	lines := strings.Split(send(a, http.MethodGet, "/metrics").Body.String(), "\n")
	return slices.DeleteFunc(lines, func(line string) bool {
		return !strings.HasPrefix(line, "opsgate_readiness{") && !strings.HasPrefix(line, "opsgate_dependency_ok{")
	})
}

// wantedMetrics returns the expected lines.
func wantedMetrics(status string, dependencies map[string]admin.Dependency) (lines []string) {
	number := map[bool]int{true: 1}
	for name, d := range dependencies {
		lines = append(lines, fmt.Sprintf("opsgate_dependency_ok{dependency=%q} %d", name, number[d.OK]))
	}
	for _, state := range []string{"starting", "ready", "degraded", "not_ready", "draining"} {
		lines = append(lines, fmt.Sprintf("opsgate_readiness{state=%q} %d", state, number[state == status]))
	}
	slices.Sort(lines)
	return lines
}

func TestLivezIsOKInEachPhase(t *testing.T) {
	a := start(nil)
	for _, step := range []func(){func() {}, a.Serving, a.Draining} {
		step()
		if got := send(a, http.MethodGet, "/livez"); got.Code != 200 || got.Body.String() != "ok\n" {
			t.Errorf("got %d %q", got.Code, got.Body)
		}
	}
}

func TestPaths(t *testing.T) {
	a := start(nil)
	for _, test := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/metrics", 200, `opsgate_build_info{goversion="go1.26",revision="abc",version="1.2.3"} 1`},
		{"GET", "/metrics", 200, "go_goroutines "},
		{"GET", "/metrics", 200, "process_resident_memory_bytes "},
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
