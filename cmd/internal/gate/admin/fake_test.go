package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/gateway"
)

// fakeInspector is an Inspector with fixed results. It records the arguments of its calls.
type fakeInspector struct {
	questions []admin.Question
	subjects  []admin.Subject
	resets    []string
	resetErr  error
	busy      []admin.BusyToken
	n         int // of Busiest
	searches  []string
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func (g *fakeInspector) Explain(_ context.Context, q admin.Question) admin.Explanation {
	g.questions = append(g.questions, q)
	return admin.Explanation{At: noon, Question: q, Explanation: gateway.Explanation{Answer: gateway.Answer{Status: 200, Code: "ok"}}}
}

func (g *fakeInspector) Limits(_ context.Context, s admin.Subject) admin.TokenLimits {
	g.subjects = append(g.subjects, s)
	remaining := 2
	return admin.TokenLimits{At: noon, Subject: s, TokenState: admin.TokenState{Limits: []admin.Limit{
		{Name: "second", Requests: 3, Remaining: &remaining}, {Name: "hour", Requests: 5000},
	}}}
}

func (g *fakeInspector) Reset(_ context.Context, tokenID string) error {
	g.resets = append(g.resets, tokenID)
	return g.resetErr
}

func (g *fakeInspector) Busiest(n int) []admin.BusyToken {
	g.n = n
	return g.busy
}

func (g *fakeInspector) FindTokens(text string) admin.FoundTokens {
	g.searches = append(g.searches, text)
	return admin.FoundTokens{Tokens: []admin.TokenIdentity{}}
}

func (g *fakeInspector) Names(ids []string) map[string]string {
	g.searches = append(g.searches, ids...)
	return map[string]string{"tok-1": "Deploy bot"}
}

func (g *fakeInspector) Configuration() admin.Configuration {
	return admin.Configuration{
		Version: "0123456789ab", Since: noon, File: "opsgate.yaml",
		LastReload: &admin.Reload{At: noon, Why: "SIGHUP", Outcome: "refused", Problems: []string{"opsgate.yaml:3: listn: is not a key"}},
		Values: []config.Value{
			{Key: "listen", Value: "127.0.0.1:8080", Origin: "default"},
			{Key: "admin.token", Value: "(hidden)", Origin: "opsgate.yaml:2"},
			{Key: "rate_limit.classes.partner.reason", Value: "two\nlines", Origin: "opsgate.yaml:9"},
		},
	}
}

const tokenPrefix = "ops_live_"

// fakeConsole is a Console with empty pages.
type fakeConsole struct{}

func (fakeConsole) Page(http.ResponseWriter, *http.Request)    {}
func (fakeConsole) Runbook(http.ResponseWriter, *http.Request) {}
func (fakeConsole) State(http.ResponseWriter, *http.Request)   {}
func (fakeConsole) Drain()                                     {}

// options returns options with fakes.
func options() admin.Options {
	return admin.Options{
		Metrics:      admin.NewRegistry(buildinfo.Info{}),
		Dependencies: func() map[string]admin.Dependency { return nil },
		Inspector:    new(fakeInspector), Console: fakeConsole{},
		Hold:        func(context.Context) func() { return func() {} },
		TokenPrefix: tokenPrefix, Logger: slog.New(slog.DiscardHandler),
	}
}

// newAdmin returns an Admin for an inspector.
func newAdmin(g *fakeInspector, access admin.Access, log io.Writer) *admin.Admin {
	o := options()
	o.Inspector, o.Access, o.Logger = g, access, slog.New(slog.NewJSONHandler(log, nil))
	return admin.New(o)
}

// send sends a request, which a test may change.
func send(a http.Handler, method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, nil)
	request.Host = "127.0.0.1:9090"
	for _, c := range change {
		c(request)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, request)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (answer T) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return answer
}
