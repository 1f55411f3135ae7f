package chaostest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	"opsgate/cmd/internal/demo"
	"opsgate/cmd/internal/logging/loggingtest"
)

// patience is how long a program may take to do what it is asked.
const patience = time.Minute

// A process is a program that a test started, and that ends with it.
type process struct {
	cmd    *exec.Cmd
	log    loggingtest.Buffer
	exited chan struct{}
}

func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program(name), args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.exited:
		case <-time.After(patience):
			_ = p.cmd.Process.Kill()
			<-p.exited
			t.Errorf("%s does not end when it is told to", name)
		}
		if strings.Contains(p.log.String(), "DATA RACE") {
			t.Errorf("%s: %s", name, p.log.String())
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, withoutAccess(p.log.String()))
		}
	})
	return p
}

func withoutAccess(log string) string {
	var kept strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"msg":"request"`) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// line returns the first line of the log with that message, and waits for it.
func (p *process) line(t *testing.T, message string) map[string]any {
	t.Helper()
	var found map[string]any
	eventually(t, patience, "a line that says "+message, func() bool {
		found = nil
		for text := range strings.Lines(p.log.String()) {
			var line map[string]any
			if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// eventually waits until something holds, and returns how long that took.
func eventually(t *testing.T, most time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", most, what)
		}
	}
	return time.Since(begun)
}

// pass lets time go by.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// startBackend runs the reference backend with the demo data, and returns where it listens.
func startBackend(t *testing.T) string {
	t.Helper()
	p := start(t, "opsbackend", "serve", "--listen=127.0.0.1:0", "--data-dir="+t.TempDir(), "--seed=demo")
	address, _ := p.line(t, "serving")["address"].(string)
	return address
}

// tokens returns the demo tokens that may list servers, by their names.
func tokens(t *testing.T) map[string]demo.Token {
	t.Helper()
	all, err := demo.Tokens(authn.TokenFormat{Prefix: "ops_"})
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]demo.Token, len(all))
	for _, token := range all {
		byName[token.Name] = token
	}
	return byName
}

// A gateway is a running opsgate.
type gateway struct {
	*process

	url, admin string
	file       string
	base       string // what every configuration of it says
}

// startGateway runs a gateway in front of a backend, with what its configuration says besides.
func startGateway(t *testing.T, backend, config string) *gateway {
	t.Helper()
	g := &gateway{
		file: filepath.Join(t.TempDir(), "opsgate.yaml"),
		base: fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nshutdown: {drain_wait: 0s}\nupstreams:\n"+
			"  fleet: &all {address: %q}\n  monitoring: *all\n  incident: *all\n  audit: *all\n  identity: *all\n", backend),
	}
	g.configure(t, config)
	g.process = start(t, "opsgate", "serve", "--config="+g.file)
	serving := g.line(t, "serving")
	g.url, g.admin = fmt.Sprint("http://", serving["listen"]), fmt.Sprint("http://", serving["admin_listen"])
	eventually(t, patience, "the gateway is ready", func() bool {
		return strings.Contains(g.get(t, "/readyz"), `"status":"ready"`)
	})
	return g
}

// configure replaces the configuration in one step.
func (g *gateway) configure(t *testing.T, config string) {
	t.Helper()
	next := g.file + ".next"
	if err := os.WriteFile(next, []byte(g.base+config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, g.file); err != nil {
		t.Fatal(err)
	}
}

func (g *gateway) hangUp(t *testing.T) {
	t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// get returns a page of the admin listener.
func (g *gateway) get(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.admin+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// metric returns the value of a series, and 0 where there is none.
func (g *gateway) metric(t *testing.T, series string) float64 {
	t.Helper()
	for line := range strings.Lines(g.get(t, "/metrics")) {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	return 0
}

func (g *gateway) isShared(t *testing.T) bool {
	t.Helper()
	return g.metric(t, `opsgate_rate_limit_store_mode{mode="shared"}`) == 1
}
