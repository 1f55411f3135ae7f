package command_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"opsgate/cmd/internal/ctl/command"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// operatorToken is in the environment of the HTTP server, which must not use it.
const operatorToken = "ops_live_operator0123456789"

// A remote is `opsctl mcp --listen`.
type remote struct {
	url string
	log *testkit.Buffer

	stop func() int // stops it and returns the exit code
}

// startRemote serves on a free port of this machine until the test ends, unless flags have another
// address.
func startRemote(t *testing.T, api string, flags ...string) *remote {
	t.Helper()
	r := &remote{log: new(testkit.Buffer)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	exited := make(chan int, 1)
	go func() {
		exited <- command.Run(ctx, append([]string{"mcp", "--listen=127.0.0.1:0"}, flags...), command.Environment{
			In: http.NoBody, Out: io.Discard, Err: r.log,
			Variables: []string{"OPSCTL_URL=" + api, "OPSCTL_TOKEN=" + operatorToken},
		})
	}()
	r.stop = sync.OnceValue(func() int {
		cancel()
		return <-exited
	})
	t.Cleanup(func() {
		if code := r.stop(); code != 0 || strings.Contains(r.log.String(), operatorToken) {
			t.Errorf("exit code %d:\n%s", code, r.log.String())
		}
	})
	serving := regexp.MustCompile(`address=\S+:(\d+) path=(\S+)`)
	testkit.Eventually(t, "the server serves", func() bool {
		found := serving.FindStringSubmatch(r.log.String())
		if found != nil {
			r.url = "http://127.0.0.1:" + found[1] + found[2]
		}
		return found != nil
	})
	return r
}

// headers is a client's transport that adds headers.
type headers http.Header

// RoundTrip implements http.RoundTripper.
func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, h)
	return http.DefaultTransport.RoundTrip(r)
}

// agent connects an agent with headers to the server, and lists its tools.
func (r *remote) agent(t *testing.T, h headers) agent {
	t.Helper()
	token := strings.TrimPrefix(http.Header(h).Get("Authorization"), "Bearer ")
	return user{token: token}.connected(t, &mcp.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: h}}, r.log)
}

// post sends a request with a token and changes to it.
func (r *remote) post(t *testing.T, body io.Reader, change func(*http.Request)) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, body)
	testkit.Must(t, err)
	request.Header = http.Header{
		"Authorization": {"Bearer " + testToken}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}
	change(request)
	response, err := http.DefaultTransport.RoundTrip(request)
	testkit.Must(t, err)
	testkit.Must(t, response.Body.Close())
	return response
}

const ping = `{"jsonrpc": "2.0", "id": 1, "method": "ping"}`

// The API sees the token and the address of the caller, once for the list of tools and once for a
// call.
func TestRemoteAgentsCallTheAPIAsThemselves(t *testing.T) {
	s := startStub(t, answer(200, identity))
	a := startRemote(t, s.url).agent(t, headers{"Authorization": {"Bearer " + testToken}, "X-Forwarded-For": {"9.9.9.9", "203.0.113.9"}})
	if a.tools["me"] == nil || a.tools["create_incident"] != nil || len(s.seen()) != 1 { // the stub's token has no scope
		t.Errorf("%d tools by %d requests", len(a.tools), len(s.seen()))
	}
	a.call(t, "me", nil, new(any))
	if len(s.seen()) != 2 {
		t.Errorf("%d requests", len(s.seen()))
	}
	for _, r := range s.seen() {
		if r.URL.Path != "/v1/me" || r.Header.Get("Authorization") != "Bearer "+testToken ||
			!slices.Equal(r.Header.Values("X-Forwarded-For"), []string{"9.9.9.9, 203.0.113.9, 127.0.0.1"}) {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
	}
}

func TestRemoteServerRefusesRequests(t *testing.T) {
	s := startStub(t, answer(200, identity))
	local, public := startRemote(t, s.url), startRemote(t, s.url, "--public-url=https://api.example.com/agents")
	set := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	listTools := `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`
	for name, c := range map[string]struct {
		server *remote
		body   string
		change func(*http.Request)
		status int
	}{
		"none":                    {local, ping, func(*http.Request) {}, 200},
		"no token":                {local, listTools, set("Authorization"), 401},
		"an empty token":          {local, listTools, set("Authorization", "Bearer "), 401},
		"another scheme":          {local, listTools, set("Authorization", "Basic "+testToken), 401},
		"two tokens":              {local, listTools, set("Authorization", "Bearer a", "Bearer b"), 401},
		"a token with spaces":     {local, listTools, set("Authorization", "Bearer a b"), 401},
		"a rebound name":          {local, ping, host("attacker.example.com"), 403},
		"no rebound name":         {local, ping, host("localhost:1"), 200},
		"a page":                  {local, ping, set("Origin", "https://attacker.example.com"), 403},
		"a page without origin":   {local, ping, set("Origin", "null"), 403},
		"a page of a new browser": {local, ping, set("Sec-Fetch-Site", "cross-site"), 403},
		"another path":            {local, ping, func(r *http.Request) { r.URL.Path = "/.well-known/x" }, 404},
		"a stream":                {local, "", func(r *http.Request) { r.Method = http.MethodGet }, 405},
		"a large body":            {local, `"` + strings.Repeat("x", 256<<10) + `"`, func(*http.Request) {}, 413},
		"a batch":                 {local, "\n[" + strings.Repeat(listTools+",", 100) + listTools + "]", func(*http.Request) {}, 400},
		"the public name":         {public, ping, host("API.example.com"), 200},
		"another public name":     {public, ping, host("api.example.com.attacker.example.com"), 403},
	} {
		response := c.server.post(t, strings.NewReader(c.body), c.change)
		if response.StatusCode != c.status || (c.status == 401) != (response.Header.Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%s: %d, want %d", name, response.StatusCode, c.status)
		}
	}
	if len(s.seen()) > 0 {
		t.Errorf("%d requests to the API", len(s.seen()))
	}
}

func TestRemoteServerDoesNotRevealTokens(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--listen=:0", "not loopback needs --tls-cert"},
		{"--listen=0.0.0.0:0 --public-url=http://localhost:8080/mcp", "--public-url must be like https://"},
		{"--listen=127.0.0.1", "a host and a port"},
		{"--listen=127.0.0.1:0 --token-file=x", "--token-file has no effect"},
		{"--listen=127.0.0.1:0 --tls-key=x", "missing [tls-cert]"},
		{"--listen=127.0.0.1:0 --url=http://api.example.com", "without encryption"},
	} {
		u := user{url: "https://api.example.com", token: testToken}
		if r := u.run(t, append([]string{"mcp"}, strings.Fields(c.flags)...)...); r.code != 2 || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: %+v", c.flags, r)
		}
	}

	authority := certstest.NewAuthority(t, "root")
	files := authority.Write(t, t.TempDir(), "mcp.example.com")
	r := startRemote(t, "https://api.example.com", "--listen=:0", "--tls-cert="+files.CertFile, "--tls-key="+files.KeyFile)
	address := strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/mcp")
	connection, err := tls.Dial("tcp", address, authority.Config(t, "mcp.example.com"))
	testkit.Must(t, err)
	defer func() { _ = connection.Close() }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://mcp.example.com/mcp", http.NoBody)
	testkit.Must(t, err)
	client := http.Client{Transport: &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return connection, nil }}}
	response, err := client.Do(request)
	testkit.Must(t, err)
	testkit.Must(t, response.Body.Close())
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %d", response.StatusCode)
	}
}

func TestRemoteCallEndsAfterASignal(t *testing.T) {
	called, release := make(chan struct{}), make(chan struct{})
	s := startStub(t, answer(200, identity), func(w http.ResponseWriter, r *http.Request) {
		close(called)
		<-release
		answer(200, identity)(w, r)
	})
	server := startRemote(t, s.url)
	a := server.agent(t, headers{"Authorization": {"Bearer " + testToken}})
	ended := make(chan bool)
	go func() {
		result, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: "me"})
		ended <- err == nil && !result.IsError
	}()
	<-called
	stopped := make(chan int)
	go func() { stopped <- server.stop() }()
	testkit.Eventually(t, "the listener is closed", func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(server.url, "http://"), "/mcp"))
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	})
	close(release)
	if !<-ended || <-stopped != 0 {
		t.Error("the call or the server failed")
	}
}

func TestRemoteServerBoundsCalls(t *testing.T) {
	const bound = 200
	release := make(chan struct{})
	s := startStub(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		answer(200, identity)(w, r)
	})
	server := startRemote(t, s.url)
	call := func() int {
		body := strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "me"}}`)
		return server.post(t, body, func(*http.Request) {}).StatusCode
	}
	var all sync.WaitGroup
	for range bound {
		all.Go(func() {
			if status := call(); status != http.StatusOK {
				t.Errorf("got %d", status)
			}
		})
	}
	testkit.Eventually(t, "all calls are at the API", func() bool { return len(s.seen()) == bound })
	if status := call(); status != http.StatusServiceUnavailable {
		t.Errorf("got %d for another call", status)
	}
	close(release)
	all.Wait()
	if status := call(); status != http.StatusOK {
		t.Errorf("got %d afterwards", status)
	}
}

// Agents of the protocol's library for Python: one opens and resolves an incident, one lacks the
// scope, one waits for its limit, and one has no valid token. The audit has their addresses.
func TestPythonAgentsOverHTTP(t *testing.T) {
	testkit.Find(t, "../../../../clients/python/.venv/bin/mcp") // make test-packages has installed the library
	s := startSystem(t, `
rate_limit:
  limits: [{requests: 1000000, per: 1s}]
  teams: {1ae830a6-b07d-535f-a5ae-03011883bd64: {limits: [{requests: 1, per: 2s}]}}
trusted_proxies: [127.0.0.1/32]
`)
	r := startRemote(t, s.BaseURL, "--max-wait=0s")
	cmd := exec.CommandContext(t.Context(), testkit.Find(t, "../../../../clients/python/.venv/bin/python"), filepath.Join("testdata", "agent.py"),
		r.url, s.Tokens["full"], s.Tokens["read"], s.Tokens["other_team"], s.Tokens["revoked"])
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var page struct {
		Items []struct{ Action, IPAddress string }
	}
	testkit.Must(t, json.Unmarshal([]byte(s.as("full").must(t, "api", "GET", "/v1/audit?action=incident.&limit=4")), &page))
	if len(page.Items) != 4 {
		t.Errorf("%d entries", len(page.Items))
	}
	for _, entry := range page.Items {
		if entry.IPAddress != "203.0.113.9" {
			t.Errorf("audited %+v", entry)
		}
	}
}
