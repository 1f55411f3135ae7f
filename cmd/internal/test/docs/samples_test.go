package docs

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/apidocs/answers"
	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/baseurl"
	"opsgate/gateway/openapi/openapitest"
)

// Every sample runs as a reader would run it, but with the address of opsdev, and prints the recorded response. go test -short runs three
// operations, in the languages that are not compiled.
func TestSamplesRun(t *testing.T) {
	s := start(t, devtest.HighLimits)
	operations := readsFirst()
	if testing.Short() {
		operations = []openapitest.Operation{operations[0], operations[len(operations)/2], operations[len(operations)-1]}
	}
	commands := make(map[string]func(string) []string)
	for _, l := range samples.Languages() {
		dir := t.TempDir() // until the end of this test, not of the subtest
		t.Run(l.ID, func(t *testing.T) {
			commands[l.ID] = build(t, l.ID, dir, s.BaseURL, examples(operations))
		})
	}
	for _, o := range operations { // then the languages, so that no write of one changes what another reads
		for _, l := range samples.Languages() {
			command, built := commands[l.ID]
			if !built {
				continue
			}
			t.Run(o.ID+"/"+l.ID, func(t *testing.T) {
				out, stderr, err := runIn(t, "", []string{"OPSCTL_TOKEN=" + s.Tokens["full"]}, command(o.ID)...)
				if err != nil || stderr != "" {
					t.Fatalf("%v\n%s", err, stderr)
				}
				record, _ := answers.Lookup(o.ID)
				_, want, _ := strings.Cut(record, "\n\n")
				if got := shorten(t, []byte(out)) + "\n"; masked(o.Method, got) != masked(o.Method, want) {
					t.Errorf("got\n%s\nthe record\n%s", got, want)
				}
			})
		}
	}
}

func examples(operations []openapitest.Operation) map[string]samples.Request {
	requests := make(map[string]samples.Request)
	for _, o := range operations {
		requests[o.ID] = samples.Requests()[o.ID]
	}
	return requests
}

// build builds the samples of the requests, with another base URL, in a directory.
func build(t *testing.T, language, dir, baseURL string, requests map[string]samples.Request) func(string) []string {
	t.Helper()
	tools := toolchains()[language]
	if tools.compiles {
		testkit.SkipIfShort(t)
	}
	for _, program := range tools.programs {
		testkit.Find(t, program)
	}
	code := make(map[string]string)
	for name, r := range requests {
		code[name] = strings.ReplaceAll(samples.Render(language, r), baseurl.Placeholder, baseURL)
	}
	return tools.build(t, dir, code)
}

// An echo returns the body of each request to it and keeps the request, except for /v1/fails, to which it returns an error.
type echo struct {
	*httptest.Server
	mu   sync.Mutex
	last *http.Request
	body []byte
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = r
	e.body, _ = io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if r.URL.Path == "/v1/fails" {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":"The token lacks a scope.","code":"forbidden"}`)
		return
	}
	_, _ = io.WriteString(w, `{"arrived":true}`)
}

// TestAnyBodyArrives checks the escapes of every language with strings that are hard to quote, and that a refusal ends a sample with the
// response.
func TestAnyBodyArrives(t *testing.T) {
	e := &echo{}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	hard := samples.Request{Method: http.MethodPost, Path: "/v1/incidents", Query: "a=%27%22%24HOME&b=2", Body: hardBody(t)}
	requests := map[string]samples.Request{"hard": hard, "fails": {Method: http.MethodGet, Path: "/v1/fails"}}
	token := []string{"OPSCTL_TOKEN=ops_live_text"}
	for _, l := range samples.Languages() {
		t.Run(l.ID, func(t *testing.T) {
			command := build(t, l.ID, t.TempDir(), e.URL, requests)
			out, stderr, err := runIn(t, "", token, command("hard")...)
			if err != nil || !json.Valid([]byte(out)) || !strings.Contains(out, "arrived") {
				t.Fatalf("%v\n%s%s", err, out, stderr)
			}
			checkArrived(t, e, hard)
			out, stderr, err = runIn(t, "", token, command("fails")...)
			if err == nil || !strings.Contains(out+stderr, `"code":"forbidden"`) || !strings.Contains(stderr, "403") {
				t.Errorf("after a refusal: %v\n%s%s", err, out, stderr)
			}
		})
	}
}

func checkArrived(t *testing.T, e *echo, sent samples.Request) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	var want, got any
	testkit.Must(t, json.Unmarshal([]byte(sent.Body), &want))
	if err := json.Unmarshal(e.body, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: arrived\n%q\nsent\n%q", err, e.body, sent.Body)
	}
	h := e.last.Header
	if e.last.Method != sent.Method || e.last.URL.RawQuery != sent.Query || h.Get("Authorization") != "Bearer ops_live_text" ||
		h.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s %v", e.last.Method, e.last.URL, h)
	}
	if key := h.Get("Idempotency-Key"); len(key) < len(strings.ReplaceAll(uuid.Nil.String(), "-", ""))*3/4 {
		t.Errorf("Idempotency-Key %q has fewer than 128 random bits", key)
	}
}

// hardBody returns a JSON object with quotes of all languages and a hundred generated strings.
func hardBody(t *testing.T) string {
	t.Helper()
	list := []string{
		`'"` + "`", `\`, `\\"`, `\n`, `\u0041`, `\"""`, `""""""`, "'''", "$HOME ${HOME} $(id) `id`", "a\nb\r\nc\td", "\nJSON\n", "\x00\x1b\x7f", "true", ": null",
		"é 日本 😀 \u2028 \u202e \ufeff", "%s %n {{.}} #{x} //", "</script>", " ends with a space ",
	}
	text := rapid.String()
	for seed := range 100 {
		list = append(list, text.Example(seed))
	}
	body, err := json.Marshal(map[string]any{"list": list, "yes": true, "no": false, "none": nil, "number": 1.5, `a "key"`: []any{}})
	testkit.Must(t, err)
	// Escapes that encoders need not use.
	return strings.Replace(string(body), `{`, `{"escapes":"\/\ud83d\ude00\u0027",`, 1)
}
