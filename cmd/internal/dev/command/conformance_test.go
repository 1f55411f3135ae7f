package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"opsgate/cmd/internal/dev/command"
	"opsgate/internal/testkit"
	"opsgate/proto/contract"
)

// A result is the exit code and the output of a run.
type result struct {
	code     int
	out, err string
}

func opsdev(t *testing.T, variables []string, arguments ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := command.Run(t.Context(), arguments, command.Environment{Out: &out, Err: &errs, Variables: variables})
	return result{code, out.String(), errs.String()}
}

// write writes a file of YAML.
func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const twoTeams = `teams:
  - {id: 7c98a182-f51f-543f-b2eb-e5680506ac1b, token: "${A_TOKEN}"}
  - {id: 1ae830a6-b07d-535f-a5ae-03011883bd64}
`

// startHealthy serves only health checks, and returns the address.
func startHealthy(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	server, checks := grpc.NewServer(), health.NewServer()
	checks.SetServingStatus("ops.fleet.v1.FleetService", healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, checks)
	go server.Serve(listener) //nolint:errcheck // the test stops it
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func TestConformanceReportsResults(t *testing.T) {
	address, fixtures := startHealthy(t), write(t, twoTeams)
	junit := filepath.Join(t.TempDir(), "junit.xml")
	variables := []string{"A_TOKEN=ops_live_secret"}
	run := func(arguments ...string) result {
		return opsdev(t, variables, append([]string{"conformance", "--fleet", address, "--fixtures", fixtures}, arguments...)...)
	}
	good := run("--only", "*/Health/*", "--junit", junit)
	services := len(contract.Services())
	counts := fmt.Sprintf("%d checks: 2 passed, 0 failed, 0 not proved, %d skipped", 2*services, 2*services-2)
	if good.code != 0 || !strings.Contains(good.out, "pass  serving") || !strings.Contains(good.out, counts) {
		t.Errorf("%+v", good)
	}
	if written, err := os.ReadFile(junit); err != nil || !strings.Contains(string(written), `<testsuite name="fleet/Health"`) {
		t.Errorf("%s, %v", written, err)
	}
	bad := run("--only", "fleet/*", "--json")
	var report struct{ Failed, Passed int }
	if err := json.Unmarshal([]byte(bad.out), &report); err != nil || report.Failed == 0 || report.Passed != 2 || bad.code != 1 {
		t.Errorf("%+v, %v", bad, err)
	}
	if !strings.Contains(bad.err, "the contract is broken") || strings.Contains(bad.out+bad.err, "secret") {
		t.Errorf("got %s", bad.err)
	}
	unproved := run("--only", "fleet/GetServerMetrics/month")
	if unproved.code != 3 || !strings.Contains(unproved.out, "NOT PROVED  fleet/GetServerMetrics/month") ||
		!strings.Contains(unproved.err, "the contract is not proved: 1 checks") {
		t.Errorf("a check without fixtures: %+v", unproved)
	}
	if unwritable := run("--only", "*/Health/*", "--junit", filepath.Join(junit, "x")); unwritable.code != 1 {
		t.Errorf("a report that cannot be written: %+v", unwritable)
	}
}

func TestConformanceUsageErrors(t *testing.T) {
	fixtures := write(t, twoTeams)
	for _, test := range []struct {
		name      string
		arguments []string
		want      string
	}{
		{"no address", []string{"--fixtures", fixtures}, "no address"},
		{"no fixtures", []string{"--fleet", "127.0.0.1:1"}, "required flag(s) \"fixtures\" not set"},
		{"fixtures that are not there", []string{"--fleet", "127.0.0.1:1", "--fixtures", fixtures + "x"}, "read the fixtures"},
		{"a variable that is not set", []string{"--fleet", "127.0.0.1:1", "--fixtures", fixtures}, "A_TOKEN, which is not set"},
		{"no such check", []string{"--fleet", "127.0.0.1:1", "--only", "flee/*", "--fixtures", fixtures}, `no check is called "flee/*"`},
		{"no time", []string{"--fleet", "127.0.0.1:1", "--timeout", "0s", "--fixtures", fixtures}, "--timeout must be longer than 0"},
		{"a key alone", []string{"--fleet", "127.0.0.1:1", "--key", fixtures, "--fixtures", fixtures}, "[cert key]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := opsdev(t, nil, append([]string{"conformance"}, test.arguments...)...)
			if got.code != 2 || !strings.Contains(got.err, test.want) {
				t.Errorf("%+v", got)
			}
		})
	}
	variables := []string{"A_TOKEN=x"}
	for want, arguments := range map[string][]string{
		"need --tls":                  {"--ca", fixtures},
		"contains none":               {"--tls", "--ca", fixtures},
		"read the client certificate": {"--tls", "--cert", fixtures, "--key", fixtures},
	} {
		got := opsdev(t, variables, append([]string{"conformance", "--fleet", "127.0.0.1:1", "--fixtures", fixtures}, arguments...)...)
		if got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%v: %+v", arguments, got)
		}
	}
}
