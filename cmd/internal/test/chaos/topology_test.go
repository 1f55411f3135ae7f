package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/dnstest"
	"opsgate/ratelimit/redisstore/redistest"
)

// tokens returns the demo tokens by name.
func tokens(t testing.TB) map[string]demo.Token {
	t.Helper()
	all, err := demo.Tokens(authn.TokenFormat{Prefix: "ops_"})
	testkit.Must(t, err)
	byName := make(map[string]demo.Token, len(all))
	for _, token := range all {
		byName[token.Name] = token
	}
	return byName
}

// texts returns the texts of demo tokens by name.
func texts(t *testing.T, names ...string) map[string]string {
	t.Helper()
	all, some := tokens(t), make(map[string]string, len(names))
	for _, name := range names {
		some[name] = all[name].Text
	}
	return some
}

// gateway is a running opsgate.
type gateway struct {
	*testkit.Process

	program    string
	scheme     string
	url, admin string
	file       string
	base       string // start of each configuration
}

// inRedis returns the configuration of limits that two gateways share. Timeouts are long in the
// short form, so that a busy machine does not cause an outage.
func inRedis(server *redistest.Server, more string) string {
	return inRedisWithin(server, either(50*time.Millisecond, 2*time.Second), more)
}

func inRedisWithin(server *redistest.Server, timeout time.Duration, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n  redis: {addresses: [%q], timeout: %v}\n%s",
		server.Addr(), timeout, more)
}

// startTwo runs two gateways in front of the shared backend, with additional configuration, and
// returns when both are ready.
func startTwo(t *testing.T, config string) []*gateway {
	t.Helper()
	return startPair(t, "opsgate", everyService(shared.address), config)
}

// startPair is startTwo for other services and another build of the gateway.
func startPair(t *testing.T, program string, upstreams services, config string) []*gateway {
	t.Helper()
	pair := []*gateway{newGateway(t, program, upstreams, config), newGateway(t, program, upstreams, config)}
	for _, g := range pair {
		g.launch(t)
	}
	for _, g := range pair {
		g.waitUntilReady(t)
	}
	return pair
}

// startGateway runs a gateway in front of the services, with additional variables, and returns when
// it is ready.
func startGateway(t testing.TB, upstreams services, config string, variables ...string) *gateway {
	t.Helper()
	g := launchGateway(t, upstreams, config, variables...)
	g.waitUntilReady(t)
	return g
}

// launchGateway is startGateway without waiting until it serves.
func launchGateway(t testing.TB, upstreams services, config string, variables ...string) *gateway {
	t.Helper()
	g := newGateway(t, "opsgate", upstreams, config)
	g.launch(t, variables...)
	return g
}

func (g *gateway) launch(t testing.TB, variables ...string) {
	t.Helper()
	command := exec.Command(program(g.program), "serve", "--config="+g.file)
	command.Env = append(os.Environ(), variables...)
	g.Process = testkit.Start(t, command)
}

// newGateway writes the configuration of a gateway. Its drain wait is 0 unless config sets it.
func newGateway(t testing.TB, program string, upstreams services, config string) *gateway {
	t.Helper()
	g := &gateway{program: program, scheme: "http", file: filepath.Join(t.TempDir(), "opsgate.yaml")}
	g.base = fmt.Sprintf("listen: %s\nadmin: {listen: %s}\n%s", testkit.FreeAddress(t), testkit.FreeAddress(t), upstreams.configuration())
	if strings.Contains(config, "tls: {cert_file") {
		g.scheme = "https"
	}
	if !strings.Contains(config, "shutdown:") {
		g.base += "shutdown: {drain_wait: 0s}\n"
	}
	g.configure(t, config)
	return g
}

// waitUntilServing waits until the gateway listens, and reads its addresses from the log.
func (g *gateway) waitUntilServing(t testing.TB) {
	t.Helper()
	serving, err := g.Record("serving")
	testkit.Must(t, err)
	g.url, g.admin = fmt.Sprint(g.scheme, "://", serving["listen"]), fmt.Sprint("http://", serving["admin_listen"])
}

// waitUntilReady waits until the gateway is ready, with no degraded dependency.
func (g *gateway) waitUntilReady(t testing.TB) {
	t.Helper()
	g.waitUntilServing(t)
	testkit.Eventually(t, "the gateway is ready", func() bool { return strings.Contains(g.get(t, "/readyz"), `"status":"ready"`) })
}

// restart starts a stopped gateway again, with its addresses and configuration.
func (g *gateway) restart(t *testing.T) {
	t.Helper()
	g.launch(t)
	g.waitUntilReady(t)
}

// configure replaces the configuration file atomically.
func (g *gateway) configure(t testing.TB, config string) {
	t.Helper()
	next := g.file + ".next"
	testkit.Must(t, errors.Join(os.WriteFile(next, []byte(g.base+config), 0o600), os.Rename(next, g.file)))
}

func (g *gateway) isRunning() bool {
	select {
	case <-g.Exited:
		return false
	default:
		return true
	}
}

func (g *gateway) sighup(t *testing.T) {
	t.Helper()
	g.Signal(t, syscall.SIGHUP)
}

// get returns a page of the admin listener.
func (g *gateway) get(t testing.TB, path string) string {
	t.Helper()
	return string(mustAsk(t, http.DefaultClient, http.MethodGet, g.admin+path, "", "").body)
}

// metric returns the value of a series. It fails the test if the series does not exist.
func (g *gateway) metric(t testing.TB, series string) float64 {
	t.Helper()
	value, exists := g.lookUp(t, series)
	if !exists {
		t.Fatalf("there is no metric %s", series)
	}
	return value
}

// requests returns the value of the counter of requests with these labels. Such a series exists
// from its first request on.
func (g *gateway) requests(t *testing.T, cause, code, route, status string) int {
	t.Helper()
	value, _ := g.lookUp(t, fmt.Sprintf("opsgate_http_requests_total{cause=%q,code=%q,route=%q,status=%q}", cause, code, route, status))
	return int(value)
}

// lookUp returns the value of a series, and whether it exists.
func (g *gateway) lookUp(t testing.TB, series string) (value float64, exists bool) {
	t.Helper()
	for line := range strings.Lines(g.get(t, "/metrics")) {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			testkit.Must(t, err)
			return value, true
		}
	}
	return 0, false
}

// sum returns the sum of a series over gateways.
func sum(t *testing.T, gateways []*gateway, series string) (n int) {
	t.Helper()
	for _, g := range gateways {
		n += int(g.metric(t, series))
	}
	return n
}

// Series of the store of limits.
const (
	sharedMode     = `opsgate_rate_limit_store_mode{mode="shared"}`
	localDecisions = "opsgate_rate_limit_local_decisions_total"
)

// services are the addresses of the internal services, as gRPC targets.
type services struct{ fleet, monitoring, incident, audit, identity string }

// everyService returns services that are all at one address.
func everyService(address string) services {
	return services{fleet: address, monitoring: address, incident: address, audit: address, identity: address}
}

// configuration returns the configuration of the services.
func (s services) configuration() string {
	return fmt.Sprintf("upstreams:\n  fleet: {address: %q}\n  monitoring: {address: %q}\n"+
		"  incident: {address: %q}\n  audit: {address: %q}\n  identity: {address: %q}\n", s.fleet, s.monitoring, s.incident, s.audit, s.identity)
}

// backend is a running opsbackend with the demo data.
type backend struct {
	*testkit.Process

	address string
	admin   string // base URL
	data    string // folder, which several backends can share
}

// demoData is a folder with the demo data, which backends copy: a backend takes seconds to create
// it with the race detector.
func demoData() string { return filepath.Join(programs, "demo") }

// createDemo runs a backend until it has created the demo data.
func createDemo() error {
	p, err := launch("opsbackend", "serve", "--listen=127.0.0.1:0", "--data-dir="+demoData(), "--seed=demo")
	if err != nil {
		return err
	}
	_, err = p.Record("serving")
	return errors.Join(err, p.Stop())
}

// launchBackend runs a backend at an address; port 0 selects a free port.
func launchBackend(address, data string, variables ...string) (*backend, error) {
	if err := os.CopyFS(data, os.DirFS(demoData())); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	command := exec.Command(program("opsbackend"), "serve", "--listen="+address, "--data-dir="+data, "--seed=demo", "--admin-listen=127.0.0.1:0")
	command.Env = append(os.Environ(), variables...)
	p, err := testkit.Launch(command)
	if err != nil {
		return nil, err
	}
	serving, err := p.Record("serving")
	if err != nil {
		return nil, err
	}
	return &backend{
		Process: p, address: fmt.Sprint(serving["address"]), admin: fmt.Sprint("http://", serving["admin"]), data: data,
	}, nil
}

// startBackend runs a backend for one test, with its own data and additional variables.
func startBackend(t *testing.T, variables ...string) *backend {
	t.Helper()
	return startBackendAt(t, testkit.FreeAddress(t), filepath.Join(t.TempDir(), "data"), variables...)
}

func startBackendAt(t *testing.T, address, data string, variables ...string) *backend {
	t.Helper()
	b, err := launchBackend(address, data, variables...)
	testkit.Must(t, err)
	t.Cleanup(func() {
		b.End(t)
		if t.Failed() {
			t.Logf("log of the backend:\n%s", b.Log.String())
		}
	})
	return b
}

// restart starts a stopped backend again, with its address and data.
func (b *backend) restart(t *testing.T) {
	t.Helper()
	again, err := launchBackend(b.address, b.data)
	testkit.Must(t, err)
	b.Process, b.admin = again.Process, again.admin
}

// startReplicas runs backends with shared data, at different loopback addresses and the same port.
// It returns them and their common DNS target.
func startReplicas(t *testing.T, n int) (replicas []*backend, name string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	first := startBackendAt(t, testkit.FreeAddress(t), data)
	replicas = []*backend{first}
	hosts := []string{host(t, first.address)}
	for i := 2; i <= n; i++ {
		other := startBackendAt(t, fmt.Sprintf("127.0.0.%d:%s", i, port(t, first.address)), data)
		replicas, hosts = append(replicas, other), append(hosts, host(t, other.address))
	}
	return replicas, "dns://" + dnstest.Start(t, dnstest.Addresses(hosts...)).Address + "/backend.test:" + port(t, first.address)
}
