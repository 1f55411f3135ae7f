package wiring_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/test/servicestest"
)

// reloading is a running gateway with a configuration file and a clock that tests change.
type reloading struct {
	*running

	base  string // part of every configuration
	file  string
	env   []string
	log   testkit.Buffer
	ahead atomic.Int64 // of the wall clock, in nanoseconds
	loads atomic.Int64
}

// reloadingGateway runs a gateway with additional configuration and environment variables until the end of the test, which fails if Run
// returns an error.
func reloadingGateway(t *testing.T, services *servicestest.Services, text string, variables ...string) *reloading {
	t.Helper()
	r := &reloading{
		file: filepath.Join(t.TempDir(), "opsgate.yaml"), env: variables,
		base: fmt.Sprintf("listen: 127.0.0.1:0\nshutdown: {drain_wait: 0s}\nupstreams:\n"+
			"  fleet: &all {address: %q}\n  monitoring: *all\n  incident: *all\n  audit: *all\n  identity: *all\n", services.Address),
	}
	r.write(t, text)
	loaded, err := r.load()
	testkit.Must(t, err)
	level := new(slog.LevelVar)
	e, err := wiring.Listen(t.Context(), wiring.Options{
		Loaded: loaded, Load: r.load, LogLevel: level, Build: buildinfo.Info{Version: "1.2.3"}, Clock: r.now,
		Logger: slog.New(slog.NewJSONHandler(&r.log, &slog.HandlerOptions{Level: level})),
	})
	testkit.Must(t, err)
	r.running = runEdge(t, e, services.Token)
	t.Cleanup(func() { r.finish(t) })
	return r
}

func (r *reloading) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

func (r *reloading) load() (config.Loaded, error) {
	r.loads.Add(1)
	return config.Load(config.Options{
		Path: r.file, Environment: r.env, Now: r.now,
		Overrides: []config.Setting{{Key: "admin.listen", Value: "127.0.0.1:0", From: "--admin-listen"}},
	})
}

// write replaces the file in one step.
func (r *reloading) write(t *testing.T, text string) {
	t.Helper()
	next := r.file + ".next"
	testkit.Must(t, os.WriteFile(next, []byte(r.base+text), 0o600))
	testkit.Must(t, os.Rename(next, r.file))
}

// reload replaces the file and reloads it.
func (r *reloading) reload(t *testing.T, text string) error {
	t.Helper()
	r.write(t, text)
	return r.Reload("test")
}

// limits returns a configuration of one limit per minute.
func limits(requests int) string {
	return fmt.Sprintf("rate_limit: {limits: [{requests: %d, per: 1m}]}\n", requests)
}

// requests returns the limit per minute in the headers of a response.
func requests(got response) int {
	var n int
	_, _ = fmt.Sscanf(got.header.Get("RateLimit-Policy"), `"minute";q=%d;w=60`, &n)
	return n
}

// mustAdmit fails the test unless a response has the limit per minute.
func (r *reloading) mustAdmit(t *testing.T, want int) {
	t.Helper()
	if got := r.get(t, r.Address(), "/v1/servers"); requests(got) != want {
		t.Errorf("got %+v, want %d a minute", got, want)
	}
}

// lines returns the log lines with a message.
func (r *reloading) lines(message string) (list []map[string]any) {
	for text := range strings.Lines(r.log.String()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
			list = append(list, line)
		}
	}
	return list
}

// await waits for a log line with a message and returns it.
func (r *reloading) await(t *testing.T, message string) map[string]any {
	t.Helper()
	testkit.Eventually(t, "a line: "+message, func() bool { return len(r.lines(message)) > 0 })
	return r.lines(message)[0]
}

// metric returns the value of a series as text, or "" if there is none.
func (r *reloading) metric(t *testing.T, series string) string {
	t.Helper()
	for line := range strings.Lines(r.get(t, r.AdminAddress(), "/metrics").body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (r *reloading) mustHaveMetric(t *testing.T, series, want string) {
	t.Helper()
	if got := r.metric(t, series); got != want {
		t.Errorf("%s is %q, want %s", series, got, want)
	}
}

// finish stops the gateway, and fails the test if Run returns an error.
func (r *reloading) finish(t *testing.T) {
	t.Helper()
	testkit.Must(t, r.end())
}
