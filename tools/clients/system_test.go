package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience limits each wait for opsdev.
const patience = 5 * time.Minute

const highLimits = "rate_limit: {limits: [{requests: 1000000, per: 1s}]}\n"

// A system is a running opsdev.
type system struct {
	BaseURL  string            `json:"baseUrl"`
	AdminURL string            `json:"adminUrl"`
	Tokens   map[string]string `json:"tokens"`

	process *exec.Cmd
	exited  chan error
	output  output
}

// An output is written by a process and read by the test.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// programs is a directory for the built opsdev.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "clients"); err != nil {
		panic(err)
	}
	// Clients wait most of the time, so that all can run at once.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(len(clients))); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// buildOpsdev builds the program and opsbackend once for all tests and returns its path. It uses the flags of releases: then the build cache has most of it,
// because the tests of releases use them too.
var buildOpsdev = sync.OnceValues(func() (string, error) {
	program := filepath.Join(programs, "opsdev")
	build := exec.Command("sh", "-c", `CGO_ENABLED=0 GOFLAGS= go build $(cat deploy/build-flags) -buildvcs=false -o "$0" ./cmd/opsdev ./cmd/opsbackend`, programs)
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build opsdev: %w\n%s", err, out)
	}
	return program, err
})

// start runs opsdev with a configuration until the end of the test.
func start(t *testing.T, config string, flags ...string) *system {
	t.Helper()
	program, err := buildOpsdev()
	must(t, err)
	dir := t.TempDir()
	configFile, credentials := filepath.Join(dir, "opsgate.yaml"), filepath.Join(dir, "credentials.json")
	must(t, os.WriteFile(configFile, []byte(config), 0o600))
	s := &system{exited: make(chan error, 1)}
	s.process = exec.Command(program, append([]string{
		"--still", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--config=" + configFile, "--credentials=" + credentials,
	}, flags...)...)
	s.process.Stdout, s.process.Stderr = &s.output, &s.output
	must(t, s.process.Start())
	go func() { s.exited <- s.process.Wait() }()
	t.Cleanup(func() { _ = s.stop() })
	s.awaitCredentials(t, credentials)
	return s
}

func (s *system) awaitCredentials(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for {
		if data, err := os.ReadFile(path); err == nil {
			must(t, json.Unmarshal(data, s))
			return
		}
		select {
		case err := <-s.exited:
			s.exited <- err // for stop
			t.Fatalf("opsdev ended: %v\n%s", err, s.output.String())
		case <-timeout:
			t.Fatalf("opsdev does not serve\n%s", s.output.String())
		case <-tick.C:
		}
	}
}

// stop ends opsdev and waits for it. It may be called again.
func (s *system) stop() error {
	_ = s.process.Process.Signal(syscall.SIGTERM) // it may have ended
	err := <-s.exited
	s.exited <- err
	return err
}

// get returns the body of a successful response.
func get(t *testing.T, url, token string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	must(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v\n%s", url, res.Status, err, body)
	}
	return body
}

// read decodes the response to a path of the API.
func read[T any](t *testing.T, s *system, path string) (v T) {
	t.Helper()
	if err := json.Unmarshal(get(t, s.BaseURL+path, s.Tokens["full"]), &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// called returns the operations that succeeded, from the metrics of the gateway.
func (s *system) called(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	series := regexp.MustCompile(`(?m)^opsgate_http_requests_total\{.*route="(\w+)",status="200"\}`)
	for _, match := range series.FindAllSubmatch(get(t, s.AdminURL+"/metrics", ""), -1) {
		found[string(match[1])] = true
	}
	return found
}

// tokenID returns the id of a token, which is the same in each system.
func (s *system) tokenID(t *testing.T, name string) string {
	t.Helper()
	var me struct{ TokenID string }
	decode(t, get(t, s.BaseURL+"/v1/me", s.Tokens[name]), &me)
	return me.TokenID
}
