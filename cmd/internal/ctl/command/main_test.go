package command_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"opsgate/cmd/internal/ctl/command"
	"opsgate/cmd/internal/test/devtest"
)

// asProgram is the variable that makes the test binary run as opsctl.
const asProgram = "OPSCTL_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(command.Run(ctx, os.Args[1:], command.Environment{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Variables: os.Environ()}))
}

// A system is a running opsdev.
type system struct{ *devtest.System }

// oneAnHour is a configuration of the gateway.
const oneAnHour = "rate_limit: {limits: [{requests: 1, per: 1h}]}\n"

// startSystem runs opsdev until the test ends.
func startSystem(t *testing.T, configuration string, arguments ...string) *system {
	t.Helper()
	return &system{devtest.Start(t, configuration, arguments...)}
}

// result is what a run of the program left.
type result struct {
	code     int
	out, err string
	waited   []time.Duration
}

// A user runs opsctl with a token.
type user struct {
	url, token, input string
	terminal          bool // whether the output is a terminal
	width             int
}

func (s *system) as(token string) user { return user{url: s.BaseURL, token: s.Tokens[token]} }

// run runs the program. Its pauses take no time, but advance its clock.
func (u user) run(t *testing.T, arguments ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	var r result
	var mu sync.Mutex
	now := time.Date(2026, 1, 2, 3, 4, 5, 500e6, time.UTC)
	environment := command.Environment{
		In: io.NopCloser(strings.NewReader(u.input)), Out: &out, Err: &errs, Terminal: u.terminal, Width: u.width,
		Variables: []string{"OPSCTL_URL=" + u.url, "OPSCTL_TOKEN=" + u.token},
		Clock: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		},
		Sleep: func(_ context.Context, d time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			now, r.waited = now.Add(d), append(r.waited, d)
			return nil
		},
	}
	r.code = command.Run(t.Context(), arguments, environment)
	r.out, r.err = out.String(), errs.String()
	return r
}

// must runs the program, which must succeed, and returns its output without the last line break.
func (u user) must(t *testing.T, arguments ...string) string {
	t.Helper()
	r := u.run(t, arguments...)
	if r.code != 0 {
		t.Fatalf("opsctl %q: exit code %d\n%s%s", arguments, r.code, r.out, r.err)
	}
	return strings.TrimSuffix(r.out, "\n")
}

// A stub answers requests by handlers in turn; the last one answers all others.
type stub struct {
	user

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

// seen returns the requests so far.
func (s *stub) seen() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// sent returns the bodies of the requests so far.
func (s *stub) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// testToken is the token of requests to stubs.
const testToken = "ops_live_stub0123456789"

func startStub(t *testing.T, handlers ...http.HandlerFunc) *stub {
	t.Helper()
	s := &stub{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		next := handlers[min(len(s.requests), len(handlers)-1)]
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
		s.mu.Unlock()
		next(w, r)
	}))
	t.Cleanup(server.Close)
	s.user = user{url: server.URL, token: testToken}
	return s
}

// answer returns a handler with a JSON answer. Headers are pairs.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// failure returns a handler with an error of the API.
func failure(status int, code string, headers ...string) http.HandlerFunc {
	return answer(status, fmt.Sprintf(`{"error": "text of %s", "code": %q, "new": 1}`, code, code), headers...)
}

// cut closes the connection within the answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"id": "`)
	panic(http.ErrAbortHandler)
}
