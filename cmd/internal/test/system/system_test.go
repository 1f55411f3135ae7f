package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

// shared is a system with high rate limits for all tests of the package.
var shared *System

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(func(dir string) int { return runTests(m, dir) }, "opsdev"))
}

func runTests(m *testing.M, dir string) int {
	var err error
	if shared, err = launch(dir); err != nil {
		fmt.Fprintln(os.Stderr, "starting the system:", err)
		return 1
	}
	code := m.Run()
	if err := shared.process.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stopping the system: %v\n%s", err, shared.process.Log.String())
		return 1
	}
	for name, token := range shared.Tokens { // their texts are on standard output and in the credentials file alone
		if strings.Contains(shared.process.Log.String(), token) {
			fmt.Fprintf(os.Stderr, "the log contains the token %q\n", name)
			return 1
		}
	}
	return code
}

// A System is a running opsdev.
type System struct {
	BaseURL     string            `json:"baseUrl"`
	AdminURL    string            `json:"adminUrl"`
	BackendAddr string            `json:"backendAddr"`
	Tokens      map[string]string `json:"tokens"`

	process *testkit.Process
}

// launch starts the program opsdev in a folder, with its files there, and waits for its credentials
// file, which it writes when it serves.
func launch(dir string) (*System, error) {
	config, credentials := filepath.Join(dir, "opsgate.yaml"), filepath.Join(dir, "credentials.json")
	if err := os.WriteFile(config, []byte("rate_limit: {limits: [{requests: 1000000, per: 1s}]}\n"), 0o600); err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join(dir, "opsdev"),
		"--still", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--config="+config, "--credentials="+credentials)
	process, err := testkit.Launch(command)
	if err != nil {
		return nil, err
	}
	s := &System{process: process}
	return s, s.awaitCredentials(credentials)
}

func (s *System) awaitCredentials(path string) error {
	limit, tick := time.After(testkit.MaxWait), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(path)
		if err == nil {
			return json.Unmarshal(data, s)
		}
		select {
		case <-s.process.Exited:
			return fmt.Errorf("opsdev ended:\n%s", s.process.Log.String())
		case <-limit:
			return fmt.Errorf("opsdev does not serve after %v\n%s", testkit.MaxWait, s.process.Log.String())
		case <-tick.C:
		}
	}
}

// A client calls the API with one token.
type client struct {
	system    *System
	token     string
	validator *openapitest.Validator
}

// as returns a client with a demo token; "" is no token.
func (s *System) as(t *testing.T, name string) client {
	t.Helper()
	token, ok := s.Tokens[name]
	if !ok && name != "" {
		t.Fatalf("there is no demo token %q", name)
	}
	return client{system: s, token: token, validator: openapitest.NewStrict(t)}
}

// A response is an HTTP response with its body.
type response struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request and validates the response against the OpenAPI document. Headers have the form
// "Name: value".
func (c client) do(t *testing.T, method, target, body string, headers ...string) response {
	t.Helper()
	r, err := c.try(t.Context(), method, target, body, headers...)
	testkit.Must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, c.system.BaseURL+target, http.NoBody)
	testkit.Must(t, err)
	c.validator.CheckResponse(t, openapitest.Exchange{Request: req, RequestBody: []byte(body), Status: r.status, Header: r.header, Body: r.body})
	return r
}

// try sends a request. It returns an error only if there is no response.
func (c client) try(ctx context.Context, method, target, body string, headers ...string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.system.BaseURL+target, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	if body == "" {
		req.Body = http.NoBody
	}
	req.Header.Set("Accept-Encoding", "identity")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, data}, err
}

func (c client) get(t *testing.T, target string, headers ...string) response {
	t.Helper()
	return c.do(t, http.MethodGet, target, "", headers...)
}

func (c client) post(t *testing.T, target, body string, headers ...string) response {
	t.Helper()
	return c.do(t, http.MethodPost, target, body, append(headers, "Content-Type: application/json")...)
}

// object is a JSON object.
type object map[string]any

func (r response) must(t *testing.T, status int) response {
	t.Helper()
	if r.status != status {
		t.Fatalf("got %d %s, want %d", r.status, r.body, status)
	}
	return r
}

// fails checks the status and the code of an error response, and returns its details.
func (r response) fails(t *testing.T, status int, code string) map[string]string {
	t.Helper()
	var e struct {
		Code    string
		Details map[string]string
	}
	if err := json.Unmarshal(r.body, &e); err != nil || r.status != status || e.Code != code {
		t.Fatalf("got %d %s, want %d %s", r.status, r.body, status, code)
	}
	return e.Details
}

func (r response) object(t *testing.T) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(r.must(t, 200).body, &o); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return o
}

func (r response) array(t *testing.T) []object {
	t.Helper()
	var os []object
	if err := json.Unmarshal(r.must(t, 200).body, &os); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return os
}

// list returns the elements of a bare array, or the items of a page.
func (r response) list(t *testing.T) []object {
	t.Helper()
	if bytes.HasPrefix(r.body, []byte("[")) {
		return r.array(t)
	}
	return r.object(t).items("items")
}

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// items returns the items of a page.
func (o object) items(name string) []object {
	list, _ := o[name].([]any)
	items := make([]object, len(list))
	for i, item := range list {
		items[i], _ = item.(map[string]any)
	}
	return items
}
