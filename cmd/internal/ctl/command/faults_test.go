package command_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const identity = `{"teamId": "01234567-89ab-7def-8123-456789abcdef", "tokenId": "01234567-89ab-7def-8123-456789abcdef", "scopes": ["new:scope"], "new": {}}`

// create is a command that writes, and created its answer.
func create(more ...string) []string {
	return append([]string{"incidents", "create", "--title", "a", "--impact", "none", "--message", "b"}, more...)
}

const created = `{"id": "01234567-89ab-7def-8123-456789abcdef", "title": "a", "status": "investigating"}`

// between reports whether each duration is within its bounds.
func between(waited []time.Duration, bounds ...[2]time.Duration) bool {
	return slices.EqualFunc(waited, bounds, func(d time.Duration, b [2]time.Duration) bool { return b[0] <= d && d <= b[1] })
}

func TestFailedRequestsAreRepeated(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	late := time.Date(2026, 1, 2, 3, 4, 12, 0, time.UTC).Format(http.TimeFormat)
	for _, c := range []struct {
		name     string
		handlers []http.HandlerFunc
		waits    [][2]time.Duration
		code     int
	}{
		{"rate limits", []http.HandlerFunc{failure(429, "rate_limited", "Retry-After", "2"), failure(429, "rate_limited")}, [][2]time.Duration{{2 * s, 2 * s}, {s, s}}, 0},
		{"unavailable with a time", []http.HandlerFunc{failure(503, "unavailable", "Retry-After", "3")}, [][2]time.Duration{{3 * s, 3 * s}}, 0},
		{"unavailable until a date", []http.HandlerFunc{failure(503, "unavailable", "Retry-After", late)}, [][2]time.Duration{{7 * s, 7 * s}}, 0},
		{"unavailable without a time", []http.HandlerFunc{failure(503, "unavailable")}, [][2]time.Duration{{125 * ms, 375 * ms}}, 0},
		{"the same key in progress", []http.HandlerFunc{failure(409, "conflict", "Retry-After", "1")}, [][2]time.Duration{{s, s}}, 0},
		{"timeouts", []http.HandlerFunc{failure(504, "timeout"), failure(408, "request_timeout")}, [][2]time.Duration{{125 * ms, 375 * ms}, {250 * ms, 750 * ms}}, 0},
		{"cut answers", []http.HandlerFunc{cut, cut, cut}, [][2]time.Duration{{125 * ms, 375 * ms}, {250 * ms, 750 * ms}, {500 * ms, 1500 * ms}}, 0},
		{"a proxy", []http.HandlerFunc{answer(502, "<html>")}, [][2]time.Duration{{125 * ms, 375 * ms}}, 0},
		{"an internal error", []http.HandlerFunc{failure(500, "internal_error")}, nil, 8},
		{"not implemented", []http.HandlerFunc{failure(501, "not_implemented")}, nil, 8},
		{"a longer wait than allowed", []http.HandlerFunc{failure(429, "rate_limited", "Retry-After", "61")}, nil, 7},
		{"a very long wait", []http.HandlerFunc{failure(503, "unavailable", "Retry-After", "99999999999999999999")}, nil, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := startStub(t, append(slices.Clone(c.handlers), answer(200, identity))...)
			if r := read.run(t, "me"); r.code != c.code || !between(r.waited, c.waits...) || strings.Count(r.err, "repeating it in") != len(c.waits) {
				t.Errorf("a read: %+v", r)
			}
			write := startStub(t, append(slices.Clone(c.handlers), answer(200, created))...)
			if r := write.run(t, create()...); r.code != c.code || !between(r.waited, c.waits...) {
				t.Errorf("a write: %+v", r)
			}
			for i, r := range write.seen() {
				key := r.Header.Get("Idempotency-Key")
				if len(key) != 36 || key != write.seen()[0].Header.Get("Idempotency-Key") || write.sent()[i] != write.sent()[0] || write.sent()[0] == "" {
					t.Errorf("request %d has key %q and body %q", i, key, write.sent()[i])
				}
			}
		})
	}
}

func TestMistakesNameTheArgument(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"servers get", "the argument ID is missing"},
		{"servers get x", `the argument ID: "x" is not an ID like 0198c5b7-0a25-7f6c-b1d8-49e36fa0c72d`},
		{"incidents resolve x", `the argument ID: "x" is not an ID like 0198c5b7-0a25-7f6c-b1d8-49e36fa0c72d`},
		{"api GET", "the argument PATH is missing"},
		{"api GET v1", "the argument PATH must begin with /"},
		{"incidents list --limit x", `invalid argument "x" for "--limit" flag: strconv.ParseInt: parsing "x": invalid syntax`},
		{"incidents list --limits 5", "unknown flag: --limits; did you mean --limit?"},
		{"incidents create --title a --message b", `required flag(s) "impact" not set`},
		{"incident", `unknown command "incident"; did you mean incidents?`},
		{"monitors checks x --since -1h", `invalid argument "-1h" for "--since" flag: "-1h" is neither a time like 2026-01-02T03:04:05Z nor how long ago, like 1h`},
	} {
		u := user{url: "https://api.example.com", token: testToken}
		if r := u.run(t, strings.Fields(c.line)...); r.code != 2 || !strings.HasPrefix(r.err, "opsctl: "+c.want+"\nTry: opsctl ") {
			t.Errorf("%s: %+v", c.line, r)
		}
		for _, output := range []string{"-o json", "-ojson", "--output=json"} {
			r := u.run(t, strings.Fields(c.line+" "+output)...)
			want, err := json.Marshal(map[string]any{"error": c.want, "code": "wrong_usage", "exitCode": 2})
			var got, wanted any
			if err = errors.Join(err, json.Unmarshal([]byte(r.err), &got), json.Unmarshal(want, &wanted)); err != nil || !reflect.DeepEqual(got, wanted) || r.code != 2 {
				t.Errorf("%s %s: %+v, %v", c.line, output, r, err)
			}
		}
	}
}

func TestTimesMayBeHowLongAgo(t *testing.T) {
	s := startStub(t, answer(200, "[]"))
	for since, want := range map[string]string{"1h": "2026-01-02T02:04:05Z", "90m": "2026-01-02T01:34:05Z", "2026-01-02T03:04:05+0000": "2026-01-02T03:04:05+0000"} {
		s.must(t, "monitors", "checks", "0198c5b7-0a25-7f6c-b1d8-49e36fa0c72d", "--since", since)
		if got := s.seen()[len(s.seen())-1].URL.Query().Get("since"); got != want {
			t.Errorf("%s: sent %s, want %s", since, got, want)
		}
	}
}

func TestRepeatingEndsAfterMaxWait(t *testing.T) {
	s := startStub(t, failure(429, "rate_limited", "Retry-After", "20"))
	r := s.run(t, create("--output", "json")...)
	if r.code != 7 || !between(r.waited, [2]time.Duration{20 * time.Second, 20 * time.Second}, [2]time.Duration{20 * time.Second, 20 * time.Second}, [2]time.Duration{20 * time.Second, 20 * time.Second}) {
		t.Errorf("got %+v", r)
	}
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	if want := `{"note":"429 rate_limited: text of rate_limited; repeating it in 20s","waitSeconds":20}`; lines[0] != want {
		t.Errorf("noted %s, want %s", lines[0], want)
	}
	if want := `{"error":"text of rate_limited","code":"rate_limited","status":429,"retryAfterSeconds":20,"exitCode":7}`; lines[len(lines)-1] != want {
		t.Errorf("reported %s, want %s", lines[len(lines)-1], want)
	}
	if r := s.run(t, "me", "--max-wait", "0s"); r.code != 7 || len(r.waited) > 0 {
		t.Errorf("with --max-wait 0s: %+v", r)
	}
}

// A write without a final answer may have been executed: the user gets the key.
func TestFailedWriteReportsItsKey(t *testing.T) {
	for code, handler := range map[int]http.HandlerFunc{8: cut, 6: failure(422, "validation_error"), 7: failure(429, "rate_limited")} {
		s := startStub(t, handler)
		r := s.run(t, create("--max-wait", "0s", "--idempotency-key", "mine")...)
		if r.code != code || strings.Contains(r.err, "--idempotency-key mine") != (code == 8) {
			t.Errorf("got %+v, want exit code %d", r, code)
		}
		if key := s.seen()[0].Header.Get("Idempotency-Key"); key != "mine" {
			t.Errorf("sent the key %q", key)
		}
	}
}

func TestIgnoredParametersAreNoted(t *testing.T) {
	s := startStub(t, answer(200, `[]`, "Ignored-Parameters", `"state", "`+testToken+`"`), answer(200, identity))
	r := s.run(t, "api", "GET", "/v1/servers?state=up&"+testToken)
	if r.code != 0 || r.out != "[]\n" || !strings.Contains(r.err, `ignored them: "state", "[token]"`) {
		t.Errorf("%+v", r)
	}
	if r := s.run(t, "me"); r.err != "" {
		t.Errorf("without ignored parameters: %s", r.err)
	}
}

func TestDeprecatedOperationIsNoted(t *testing.T) {
	s := startStub(t, answer(200, identity, "Deprecation", "@1798761600", "Sunset", "Sat, 01 Jan 2028 00:00:00 GMT"), answer(200, identity))
	if r := s.run(t, "me"); r.code != 0 || !strings.Contains(r.err, `deprecated; it may be removed after: "Sat, 01 Jan 2028 00:00:00 GMT"`) {
		t.Errorf("got %+v", r)
	}
	if r := s.run(t, "me"); r.err != "" {
		t.Errorf("noted %q", r.err)
	}
}

func TestNoConnection(t *testing.T) {
	const closed = "http://127.0.0.1:1" // not a port that was free a moment ago: a parallel test may listen on it by now
	if r := (user{url: closed, token: testToken}).run(t, "me", "--max-wait", "1s"); r.code != 8 || len(r.waited) < 1 || !strings.Contains(r.err, "connection refused") {
		t.Errorf("a closed port: %+v", r)
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	if r := (user{url: secure.URL, token: testToken}).run(t, "me"); r.code != 8 || len(r.waited) > 0 || !strings.Contains(r.err, "certificate") {
		t.Errorf("an unknown certificate: %+v", r)
	}
	hangs := startStub(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if r := hangs.run(t, "me", "--timeout", "50ms", "--max-wait", "0s"); r.code != 8 || !strings.Contains(r.err, "no complete answer within 50ms") {
		t.Errorf("no answer: %+v", r)
	}
}

// The token must not follow a redirect to another host, nor to the same one over plain HTTP.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := startStub(t, answer(200, identity))
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := startStub(t, answer(status, "", "Location", other.url+"/v1/me"))
		if r := s.run(t, "me"); r.code != 1 || !strings.Contains(r.err, "redirected") || len(s.seen()) != 1 {
			t.Errorf("%d: %+v", status, r)
		}
	}
	if len(other.seen()) > 0 {
		t.Error("a redirect was followed")
	}
}

func TestUnusableAnswers(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		block := []byte(strings.Repeat("[", 1<<20))
		for range 80 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(bytes.Repeat([]byte("["), 80<<20))
		_ = z.Close()
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"a page":             {answer(200, "<html>"), "the answer is not JSON"},
		"nothing":            {answer(200, ""), "the answer is not JSON"},
		"another type":       {answer(200, "[]"), "not what opsctl expects"},
		"a huge answer":      {endless, "larger than 64 MiB"},
		"a decompressed one": {bomb, "larger than 64 MiB"},
	} {
		if r := startStub(t, c.handler).run(t, "me"); r.code != 1 || r.out != "" || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit code %d, %q, %q", name, r.code, r.out, r.err)
		}
	}
}

func TestAnswerOfAnotherServerIsNamed(t *testing.T) {
	s := startStub(t, answer(404, "404 page not found"))
	if r := s.run(t, "me"); r.code != 5 || !strings.Contains(r.err, "404 unexpected_answer: Not Found, not from the API") {
		t.Errorf("got %+v", r)
	}
}

// A server that echoes the request must not put the token into a log.
func TestTokenIsInNoOutput(t *testing.T) {
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text, _ := json.Marshal(r.Header)
			w.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error": `+quote(string(text))+`, "code": `+quote(r.Header.Get("Authorization"))+`}`)
		}
	}
	for _, status := range []int{200, 400, 401, 429, 500} {
		for _, output := range []string{"table", "json"} {
			r := startStub(t, echo(status)).run(t, "api", "GET", "/v1/me", "--max-wait", "1s", "-o", output)
			if strings.Contains(r.out+r.err, testToken) || !strings.Contains(r.out+r.err, "[token]") {
				t.Errorf("%d: %+v", status, r)
			}
		}
	}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func TestControlCharactersAreHarmless(t *testing.T) {
	const hostile = `[{"id": "01234567-89ab-7def-8123-456789abcdef", "name": "a\u001b[2Jb\u0007\u202ec\td\ne", "color": "\u009b31m", "position": 1}]`
	s := startStub(t, answer(200, hostile), answer(404, `{"error": "no\u001b[31m\nsuch", "code": "not_found"}`, "X-Request-Id", "a\tb"))
	table := s.must(t, "server-groups", "list")
	if !strings.Contains(table, `a\x1b[2Jb\a\u202ec\td\ne`) || !strings.Contains(table, `\u009b31m`) || strings.Count(table, "\n") != 1 {
		t.Errorf("printed %q", table)
	}
	if r := s.run(t, "me"); !strings.Contains(r.err, `no\x1b[31m\nsuch`) || strings.Contains(r.err, "\x1b") {
		t.Errorf("reported %q", r.err)
	}
	const tagged = "{\"name\":\r\t\"a\u009b\u202e\U000E0041\x7f\"}\n"
	s = startStub(t, answer(200, tagged), answer(200, "a\u009b:\tb\n\x1b[2J"))
	if out := s.must(t, "api", "GET", "/v1/x"); out != `{"name":  "a\u009b\u202e\udb40\udc41\u007f"}` {
		t.Errorf("printed %q", out)
	}
	if out := s.must(t, "api", "GET", "/openapi.yaml"); out != "a\u009b:\tb\n\x1b[2J" {
		t.Errorf("printed %q to a file", out)
	}
	s.terminal = true
	if out := s.must(t, "api", "GET", "/openapi.yaml"); out != "a\\u009b:\tb\n\\x1b[2J" {
		t.Errorf("printed %q to a terminal", out)
	}
}

func TestAPICommandPrintsAnswersAsTheyAre(t *testing.T) {
	s := startStub(t, answer(200, "{\"a\" :1}"))
	if r := s.run(t, "api", "get", "/v1/anything?x=%20&y=1", "-o", "id"); r.out != "{\"a\" :1}\n" || s.seen()[0].URL.String() != "/v1/anything?x=%20&y=1" || s.seen()[0].Header.Get("Idempotency-Key") != "" {
		t.Errorf("got %+v from %s", r, s.seen()[0].URL)
	}
	s.input = `{"b": 2}`
	s.must(t, "api", "POST", "/v1/incidents", "--data", "-")
	if r := s.seen()[1]; s.sent()[1] != s.input || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Key") == "" {
		t.Errorf("sent %q with %v", s.sent()[1], r.Header)
	}
	for _, path := range []string{"//other.example/v1/me", "/@other.example", "/v1/../x", "/\\other.example"} {
		s.run(t, "api", "GET", path)
	}
	if len(s.seen()) != 6 {
		t.Errorf("only %d requests reached the host", len(s.seen()))
	}
}
