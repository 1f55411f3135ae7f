package command_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

// describedOperations returns the methods and paths of the OpenAPI document.
func describedOperations() (list []string) {
	for _, o := range openapitest.Operations() {
		list = append(list, o.Method+" "+o.Path)
	}
	slices.Sort(list)
	return list
}

// recorder is a proxy that records the operations that pass it.
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func startRecorder(t *testing.T, target string) (*recorder, string) {
	t.Helper()
	to, err := url.Parse(target)
	testkit.Must(t, err)
	rec := &recorder{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec.mu.Lock()
		rec.seen = append(rec.seen, r.Method+" "+id.ReplaceAllString(r.URL.Path, "{id}"))
		rec.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return rec, server.URL
}

func TestEveryOperationHasACommandThatWorks(t *testing.T) {
	s := startSystem(t, devtest.HighLimits)
	rec, address := startRecorder(t, s.BaseURL)
	u := user{url: address, token: s.Tokens["full"]}
	id := func(resource string) string {
		text, _, _ := strings.Cut(u.must(t, resource, "list", "-o", "id"), "\n")
		return text
	}
	server, page, monitor, incident := id("servers"), id("status-pages"), id("monitors"), id("incidents")
	commands := [][]string{
		{"me"},
		{"servers", "metrics", server, "--range", "7d"},
		{"monitors", "checks", monitor, "--since", "2026-01-02T03:04:05Z"},
		{"incidents", "create", "--title", "a", "--impact", "none", "--message", "b", "--status-page", page},
		{"incidents", "update", incident, "--status", "monitoring", "--message", "b", "--no-notify"},
		{"incidents", "resolve", incident},
		{"audit", "list", "--action", "incident."},
	}
	for _, o := range apiclient.Operations() {
		switch path := strings.Split(strings.TrimPrefix(o.Path, "/v1/"), "/"); {
		case o.Writes() || o.Path == "/v1/me":
		case len(path) == 1:
			commands = append(commands, []string{path[0], "list"})
		case len(path) == 2:
			commands = append(commands, []string{path[0], "get", id(path[0])})
		default:
			commands = append(commands, []string{path[0], path[2], id(path[0])})
		}
	}
	rec.seen = nil
	for _, command := range commands {
		if text := u.must(t, command...); len(text) < 10 {
			t.Errorf("%q printed %q", command, text)
		}
		if text := u.must(t, append(command, "--output", "json")...); !json.Valid([]byte(text)) || strings.Contains(text, "\n") {
			t.Errorf("%q --output json printed %q", command, text)
		}
		u.must(t, command[0], "--help")
	}
	slices.Sort(rec.seen)
	if called := slices.Compact(rec.seen); !slices.Equal(called, describedOperations()) {
		t.Errorf("the commands call\n%s\nthe document has\n%s", strings.Join(called, "\n"), strings.Join(describedOperations(), "\n"))
	}
}

func TestIncidentFromCreationToResolution(t *testing.T) {
	s := startSystem(t, devtest.HighLimits)
	u := s.as("full")
	page, _, _ := strings.Cut(u.must(t, "status-pages", "list", "-o", "id"), "\n")
	create := []string{
		"incidents", "create", "--title", "Deployment failed", "--impact", "major", "--message", "-", "--status-page", page,
		"--idempotency-key", "pipeline-42", "-o", "id",
	}
	u.input = "The deployment failed.\nWe roll it back.\n"
	id := u.must(t, create...)
	again := u.run(t, create...)
	if again.out != id+"\n" || !strings.Contains(again.err, "an earlier request with this idempotency key did it") {
		t.Errorf("the same key again: %+v, want %s", again, id)
	}
	u.must(t, "incidents", "update", id, "--status", "identified", "--message", "A faulty image.", "--no-notify")
	u.must(t, "incidents", "resolve", id)
	shown := u.must(t, "incidents", "get", id)
	testkit.Contains(t, shown, "STATUS          resolved", "STATUS PAGE ID  "+page, "  We roll it back.\n", "identified\n  A faulty image.\n", "resolved\n  This incident has been resolved.")
	var incident struct {
		Updates []struct{ Status string }
	}
	testkit.Must(t, json.Unmarshal([]byte(u.must(t, "incidents", "get", id, "-o", "json")), &incident))
	if len(incident.Updates) != 3 {
		t.Errorf("got %d updates", len(incident.Updates))
	}
	if first := u.must(t, "incidents", "list", "--limit", "1", "-o", "id"); first != id {
		t.Errorf("the newest is %s, want %s", first, id)
	}
}

// Each class of error has its exit code, its code and its details.
func TestExitCodesOfRealErrors(t *testing.T) {
	s := startSystem(t, devtest.HighLimits)
	const none = "01234567-89ab-7def-8123-456789abcdef"
	for _, c := range []struct {
		token, command string
		code           int
		want           string
	}{
		{"full", "me", 0, ""},
		{"revoked", "me", 3, "401 unauthorized"},
		{"servers:read", "monitors list", 4, "required: monitors:read"},
		{"no_plan", "servers list", 4, "requiredPlan: ai"},
		{"full", "servers get " + none, 5, "404 not_found"},
		{"full", "api GET /v1/unknown", 5, "404 not_found"},
		{"full", "api DELETE /v1/servers", 6, "405 method_not_allowed"},
		{"full", "api GET /v1/incidents?limit=0", 6, "limit: "},
		{"full", "incidents create --title \x00 --impact none --message b", 6, "title: "},
		{"full", "servers", 2, "expected a command"},
		{"full", "incidents list --limit 0", 2, "--limit"},
		{"full", "incidents resolve " + none + " --idempotency-key=", 2, `"--idempotency-key" flag: the key is empty`},
		{"full", "me -o id", 2, "has no id"},
	} {
		r := s.as(c.token).run(t, strings.Split(c.command, " ")...)
		if r.code != c.code || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: opsctl %s: exit code %d, want %d with %q on standard error:\n%s", c.token, c.command, r.code, c.code, c.want, r.err)
		}
		if (r.code == 0) == (r.out == "") {
			t.Errorf("opsctl %s: exit code %d and output %q", c.command, r.code, r.out)
		}
		if c.code < 3 {
			continue
		}
		var asJSON struct {
			Error, Code, RequestID string
			Status, ExitCode       int
		}
		r = s.as(c.token).run(t, append(strings.Split(c.command, " "), "-o", "json")...)
		if err := json.Unmarshal([]byte(r.err), &asJSON); err != nil || asJSON.ExitCode != c.code || asJSON.Code == "" || asJSON.Error == "" || asJSON.RequestID == "" {
			t.Errorf("opsctl %s -o json: %v: %s", c.command, err, r.err)
		}
	}
}

func TestTokenFileAndConnectionSettings(t *testing.T) {
	s := startStub(t, answer(200, `{"teamId": "01234567-89ab-7def-8123-456789abcdef", "tokenId": "01234567-89ab-7def-8123-456789abcdef", "scopes": []}`))
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
		testkit.Must(t, os.Chmod(path, mode))
		return path
	}
	for _, c := range []struct {
		name      string
		url       string
		token     string
		arguments []string
		code      int
		want      string
	}{
		{"a file", s.url, "", []string{"--token-file", file("good", testToken+"\n", 0o600)}, 0, ""},
		{"a file before the variable", s.url, "wrong", []string{"--token-file", file("group", testToken, 0o640)}, 0, ""},
		{"the variable", s.url + "/", testToken, nil, 0, ""},
		{"a URL before the variable", "http://127.0.0.1:1", testToken, []string{"--url", s.url}, 0, ""},
		{"no token", s.url, "", nil, 2, "where is the API token?"},
		{"others can read the file", s.url, "", []string{"--token-file", file("open", testToken, 0o644)}, 2, "chmod 600"},
		{"an empty file", s.url, "", []string{"--token-file", file("empty", "\n", 0o600)}, 2, "does not contain an API token"},
		{"no file", s.url, "", []string{"--token-file", filepath.Join(dir, "none")}, 2, "no such file"},
		{"a folder", s.url, "", []string{"--token-file", dir}, 2, "is a directory"},
		{"two lines", s.url, testToken + "\nx", nil, 2, "does not contain an API token"},
		{"no URL", "", testToken, nil, 2, "where is the API?"},
		{"plain HTTP to another host", "http://api.example.com", testToken, nil, 2, "without encryption"},
		{"a user in the URL", "https://me:secret@api.example.com", testToken, nil, 2, "without a user"},
		{"another scheme", "ftp://api.example.com", testToken, nil, 2, "must begin with https://"},
		{"plain HTTP, allowed", "http://api.invalid", testToken, []string{"--insecure-http"}, 8, "no_connection"},
	} {
		r := user{url: c.url, token: c.token}.run(t, append([]string{"me"}, c.arguments...)...)
		if r.code != c.code || !strings.Contains(r.err, c.want) || strings.Contains(r.out+r.err, testToken) || strings.Contains(r.err, "secret") {
			t.Errorf("%s: %+v, want exit code %d and %q", c.name, r, c.code, c.want)
		}
	}
	for _, r := range s.seen() {
		if r.Header.Get("Authorization") != "Bearer "+testToken || r.URL.Path != "/v1/me" {
			t.Errorf("got %s with %s", r.URL, r.Header)
		}
	}
	if len(s.seen()) != 4 {
		t.Errorf("%d requests", len(s.seen()))
	}
}
