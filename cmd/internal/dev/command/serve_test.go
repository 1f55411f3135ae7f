package command_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/cmd/internal/dev/command"
	"opsgate/cmd/internal/test/devtest"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

// A system is a running opsdev with a client.
type system struct {
	*devtest.System

	http http.Transport
}

// start runs opsdev with still data until it serves.
func start(t *testing.T, arguments ...string) *system {
	t.Helper()
	return startMoving(t, append(arguments, "--still")...)
}

// startMoving runs opsdev with data that moves.
func startMoving(t *testing.T, arguments ...string) *system {
	t.Helper()
	s := &system{System: devtest.Run(t, arguments...)}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// end stops the system and checks its exit code.
func (s *system) end(t *testing.T) {
	t.Helper()
	if code := s.Stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, s.Log.String())
	}
}

func (s *system) call(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testkit.Must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.http.RoundTrip(request)
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response.StatusCode, string(content)
}

func TestOpsdevServesTheWholeSystem(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := start(t)
	names := []string{
		"full", "read", "none", "other_team", "no_plan", "revoked", "servers:read", "metrics:read", "scheduled-commands:read",
		"commands:read", "monitors:read", "incidents:read", "incidents:write", "status-pages:read", "audit:read",
	}
	for _, name := range names {
		if !strings.HasPrefix(s.Tokens[name], "ops_live_") {
			t.Errorf("token %s: %q", name, s.Tokens[name])
		}
	}
	if len(s.Tokens) != len(names) {
		t.Errorf("got %d tokens", len(s.Tokens))
	}
	for _, test := range []struct {
		url, token string
		status     int
	}{
		{s.BaseURL + "/v1/servers", "servers:read", 200},
		{s.BaseURL + "/v1/servers", "none", 403},
		{s.BaseURL + "/v1/servers", "no_plan", 403},
		{s.BaseURL + "/v1/servers", "revoked", 401},
		{s.BaseURL + "/docs/", "", 200},
		{s.AdminURL + "/readyz", "", 200},
		{s.AdminURL + "/", "", 200},
	} {
		if status, body := s.call(t, http.MethodGet, test.url, s.Tokens[test.token], ""); status != test.status {
			t.Errorf("%s with %q: got %d %s", test.url, test.token, status, body)
		}
	}
	s.checkWelcome(t, names)
	hangUp(t) // without --config it ends the system
	<-s.Exited
	s.end(t)
	for name, token := range s.Tokens {
		if strings.Contains(s.Log.String(), token) {
			t.Errorf("the token %s is in the log", name)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "opsdev-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("data is not removed: %v, %v", left, err)
	}
}

// checkWelcome checks the addresses and tokens in the output, and that the curl line works.
func (s *system) checkWelcome(t *testing.T, names []string) {
	t.Helper()
	text := s.Out.String()
	if strings.Contains(text, "WARNING") {
		t.Errorf("a warning on loopback:\n%s", text)
	}
	testkit.Contains(t, text, s.BaseURL, s.BaseURL+"/docs/", s.AdminURL+"/\n", s.AdminURL+"/metrics", s.BackendAddr)
	for _, name := range names {
		if !slices.Contains(strings.Fields(text), s.Tokens[name]) {
			t.Errorf("the output lacks the token %s", name)
		}
	}
	line := regexp.MustCompile(`(?m)^  curl -H 'Authorization: Bearer ([^']+)' (\S+)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatalf("no curl line in\n%s", text)
	}
	if status, body := s.call(t, http.MethodGet, line[2], line[1], ""); status != 200 {
		t.Errorf("the curl line: got %d %s", status, body)
	}
}

// One scenario, because the demo data takes most of the time.
func TestKeptDataAndOwnConfiguration(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "opsgate.yaml")
	const content = "token_prefix: acme_\nlog: {format: json}\nrate_limit: {limits: [{requests: 1, per: 1h}]}\n" +
		"upstreams: {fleet: {address: 192.0.2.1:9}}\n" // must not be called
	testkit.Must(t, os.WriteFile(file, []byte(content), 0o600))
	const incident = `{"title": "Kept", "status": "investigating", "impact": "minor", "message": "It stays."}`
	s := start(t, "--data-dir", dir, "--config", file)
	if !strings.HasPrefix(s.Tokens["full"], "acme_live_") {
		t.Errorf("got %q", s.Tokens["full"])
	}
	status, body := s.call(t, http.MethodPost, s.BaseURL+"/v1/incidents", s.Tokens["full"], incident)
	if status != 200 {
		t.Fatalf("got %d %s", status, body)
	}
	var created struct{ ID string }
	testkit.Must(t, json.Unmarshal([]byte(body), &created))
	if status, body := s.call(t, http.MethodGet, s.BaseURL+"/v1/servers", s.Tokens["full"], ""); status != 429 {
		t.Errorf("a second request in the hour: got %d %s", status, body)
	}
	s.changeLimits(t, file, strings.ReplaceAll(content, "requests: 1,", "requests: 100,"))
	if !strings.Contains(s.Out.String(), "kept in "+dir) {
		t.Errorf("the output lacks the data directory:\n%s", s.Out.String())
	}
	s.end(t)
	if !strings.Contains(s.Log.String(), `"msg":"serving"`) {
		t.Errorf("the log is not JSON:\n%s", s.Log.String())
	}

	guard(t, file, content)
	again := start(t, "--data-dir", dir, "--config", file)
	again.checkGuarded(t)
	if status, body := again.call(t, http.MethodGet, again.BaseURL+"/v1/incidents/"+created.ID, again.Tokens["full"], ""); status != 200 {
		t.Errorf("after a restart: got %d %s", status, body)
	}
	again.end(t)

	var out, log testkit.Buffer
	arguments := []string{"--still", "--data-dir", dir, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--credentials", file + "/x"}
	code := command.Run(t.Context(), arguments, command.Environment{Out: &out, Err: &log})
	if code != 1 || !strings.Contains(log.String(), "write the credentials") {
		t.Errorf("credentials that cannot be written: got %d\n%s", code, log.String())
	}
}

// guard rewrites a configuration to require a client certificate and a token on the admin listener.
func guard(t *testing.T, file, content string) {
	t.Helper()
	roots := certstest.NewAuthority(t, "root")
	own := roots.Server(t, 1)
	files := certstest.Write(t, own.Certificate, own.Key, roots.PEM, []byte("a-token-of-operators"))
	content += fmt.Sprintf("admin: {token: \"${file:%s}\", tls: {cert_file: %s, key_file: %s, client_ca_file: %s}}\n",
		files[3], files[0], files[1], files[2])
	testkit.Must(t, os.WriteFile(file, []byte(content), 0o600))
}

// checkGuarded checks that the admin listener has TLS and that the output names the credentials.
func (s *system) checkGuarded(t *testing.T) {
	t.Helper()
	s.http.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	if status, body := s.call(t, http.MethodGet, s.AdminURL+"/readyz", "", ""); status != 200 || !strings.HasPrefix(s.AdminURL, "https://") {
		t.Errorf("%s: got %d %s", s.AdminURL, status, body)
	}
	if status, _ := s.call(t, http.MethodGet, s.AdminURL+"/metrics", "", ""); status != 403 {
		t.Errorf("without a certificate: got %d", status)
	}
	line := regexp.MustCompile(`\nThe admin page and the metrics need a client certificate of \S+, and the configuration's admin\.token\.\n`)
	if text := s.Out.String(); !line.MatchString(text) || !strings.Contains(text, "  "+s.AdminURL+"/\n") {
		t.Errorf("the output lacks the credentials of the admin listener:\n%s", text)
	}
	if strings.Contains(s.Out.String()+s.Log.String(), "a-token-of-operators") {
		t.Error("the token is in the output or the log")
	}
}

// changeLimits reloads the running system with a configuration that allows more requests.
func (s *system) changeLimits(t *testing.T, file, content string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(file, []byte(content), 0o600))
	hangUp(t)
	testkit.Eventually(t, "reload", func() bool { return strings.Contains(s.Log.String(), `"msg":"configuration reloaded"`) })
	if status, body := s.call(t, http.MethodGet, s.BaseURL+"/v1/servers", s.Tokens["full"], ""); status != 200 {
		t.Errorf("with more requests in the hour: got %d %s", status, body)
	}
}

func hangUp(t *testing.T) {
	t.Helper()
	testkit.Must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
}

func TestDemoDataMoves(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	s := startMoving(t, "--config="+write(t, devtest.HighLimits))
	testkit.Eventually(t, "check", func() bool {
		status, body := s.call(t, http.MethodGet, s.BaseURL+"/v1/monitors", s.Tokens["full"], "")
		var monitors []struct{ LastCheckAt time.Time }
		return status == 200 && json.Unmarshal([]byte(body), &monitors) == nil &&
			slices.ContainsFunc(monitors, func(m struct{ LastCheckAt time.Time }) bool { return m.LastCheckAt.After(begun) })
	})
	s.end(t)
}

func TestCommandLine(t *testing.T) {
	bad := write(t, "listn: 1\n")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = busy.Close() }()
	for _, test := range []struct {
		name      string
		arguments []string
		code      int
		out, err  string
	}{
		{"help", []string{"--help"}, 0, "--credentials", ""},
		{"version", []string{"version"}, 0, "opsdev dev\nrevision: ", ""},
		{"version by flag", []string{"--version"}, 0, "opsdev dev\nrevision: ", ""},
		{"no such flag", []string{"--port=1"}, 2, "", "Try: opsdev --help"},
		{"no such command", []string{"stop"}, 2, "", "unknown command \"stop\""},
		{"a bad configuration", []string{"--config", bad}, 1, "", bad + ":1: listn: is not a key; did you mean listen?\n"},
		{"no configuration", []string{"--config", bad + "!"}, 1, "", "no such file"},
		{"a bad address", []string{"--listen", "8080"}, 1, "", "--listen: listen: must be an address"},
		{"an address of another machine", []string{"--listen", "192.0.2.1:80"}, 1, "", "bind the public listener"},
		{"an address in use", []string{"--listen", busy.Addr().String()}, 1, "", "--listen and --admin-listen choose other addresses"},
		{"a seed of still data", []string{"--still", "--seed=2"}, 2, "", "--seed has no effect with --still, except with --disturb"},
		{"no percent", []string{"--disturb=5"}, 2, "", "must be 0% to 100%, not \"5\""},
		{"more than all", []string{"--disturb=101%"}, 2, "", "must be 0% to 100%"},
		{"not a number", []string{"--disturb=NaN%"}, 2, "", "must be 0% to 100%"},
		{"no SMTP port", []string{"--smtp=localhost"}, 2, "", "--smtp: the address of the SMTP server must be host:port"},
		{"no URL of webhooks", []string{"--webhook=localhost:3000"}, 2, "", "--webhook: the URL must begin with https://"},
		{"a data directory that is a file", []string{"--data-dir", bad}, 1, "", "opsdev: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, log testkit.Buffer
			code := command.Run(t.Context(), test.arguments, command.Environment{Out: &out, Err: &log})
			if code != test.code || !strings.Contains(out.String(), test.out) || !strings.Contains(log.String(), test.err) {
				t.Errorf("got %d\n%s\n%s", code, out.String(), log.String())
			}
		})
	}
}

func TestInterruptBeforeItIsReady(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, log testkit.Buffer
	arguments := []string{"--still", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"}
	if code := command.Run(ctx, arguments, command.Environment{Out: &out, Err: &log}); code != 0 || strings.Contains(out.String(), "curl") {
		t.Errorf("got %d\n%s\n%s", code, out.String(), log.String())
	}
}
