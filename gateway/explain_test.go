package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"opsgate/authn"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

// explain explains a request with one of the harness's tokens, "" for a caller that is not known.
func (h *harness) explain(token, method, path string) Explanation {
	q := ExplainRequest{Method: method, Path: path}
	if principals, ok := h.gateway.options.Authenticator.(tokens); ok {
		q.Principal = principals[token]
	}
	return h.gateway.Explain(q)
}

// TestExplanationMatchesResponse explains each request and then sends it.
func TestExplanationMatchesResponse(t *testing.T) {
	h := start(t)
	// The services reject every call with Aborted, which no other check returns.
	h.services.fail("", status.Error(codes.Aborted, "reached the service"))
	// FuzzExplain has more paths and methods.
	cases := []struct{ token, method, path, failedCheck string }{
		{"full", "GET", "/v1/me", ""},
		{"none", "GET", "/v1/me?pretty=1", ""},
		{"full", "HEAD", "/v1/servers", ""},
		{"none", "OPTIONS", "/v1/servers", ""},
		{"full", "OPTIONS", "/v1/servers/a%2Fb", "route"},
		{"full", "GET", "/v1/servers/" + someID + "/metrics?range=7d", ""},
		{"full", "GET", "/v1/incidents?limit=0&limit=1", "request"},
		{"full", "POST", "/v1/incidents/x/updates", "request"},
		{"no_plan", "GET", "/v1/nothing", "route"},
		{"no_plan", "PUT", "/v1/servers", "route"},
		{"no_plan", "GET", "/v1/servers", "plan"},
		{"none", "GET", "/v1/servers/x", "scope"},
		{"servers.read", "GET", "/v1/servers/" + someID + "/metrics", "scope"},
		{"none", "GET", "/v1/servers//metrics", "route"},
		{"", "GET", "/elsewhere", "route"},
		{"", "HEAD", "/openapi.yaml", ""},
		{"", "OPTIONS", "/docs/", ""},
		{"", "GET", "/docs", ""},
		{"", "POST", "/", "route"},
		{"", "GET", "/docs/nothing.js", "request"},
	}
	for _, c := range cases {
		t.Run(c.token+" "+c.method+" "+c.path, func(t *testing.T) {
			e := h.explain(c.token, c.method, c.path)
			if e.Answer.FailedCheck != c.failedCheck {
				t.Errorf("failed check %q, want %q: %+v", e.Answer.FailedCheck, c.failedCheck, e.Checks)
			}
			mustMatch(t, e, h.do(t, c.token, c.method, c.path, ""))
		})
	}
}

func TestExplanationOfRevokedToken(t *testing.T) {
	h := start(t, ofIdentity(authn.ErrRevoked))
	e := h.gateway.Explain(ExplainRequest{Path: "/v1/servers", Refused: &authn.RefusedError{Identity: authn.Identity{TokenID: tokenID}, Reason: authn.ErrRevoked}})
	if e.Answer.FailedCheck != "token" || e.Answer.Cause != causeTokenRevoked || e.Answer.Code != "unauthorized" {
		t.Errorf("got %+v", e)
	}
	mustMatch(t, e, h.do(t, "full", "GET", "/v1/servers", ""))
	if i := slices.IndexFunc(e.Checks, func(c Check) bool { return c.Name == "token" }); e.Checks[i].Detail != "the token was revoked" {
		t.Errorf("checks %+v", e.Checks)
	}
}

// mustMatch compares an explanation with the response to the same request, if services fail with
// Aborted.
func mustMatch(t *testing.T, e Explanation, got answer) {
	t.Helper()
	wantStatus, wantCode := e.Answer.Status, e.Answer.Code
	if last := e.Checks[len(e.Checks)-1]; last.Name == "service" && e.Answer.FailedCheck == "" {
		wantStatus, wantCode = 409, "conflict"
	}
	if got.StatusCode != wantStatus || got.Header.Get("Allow") != e.Answer.Allow {
		t.Errorf("explained as %d, Allow %q; got %d, Allow %q", wantStatus, e.Answer.Allow, got.StatusCode, got.Header.Get("Allow"))
	}
	if got.StatusCode < 400 || got.body == "" {
		return
	}
	var body struct {
		Error, Code string
		Details     map[string]string
	}
	testkit.Must(t, json.Unmarshal([]byte(got.body), &body))
	if body.Code != wantCode {
		t.Errorf("explained as %s; got %s", wantCode, got.body)
	}
	if e.Answer.FailedCheck != "" && (body.Error != e.Answer.Text || !cmp.Equal(body.Details, e.Answer.Details)) {
		t.Errorf("explained as %q %v; got %s", e.Answer.Text, e.Answer.Details, got.body)
	}
}

func TestEachHandlerCallsTheServiceOfItsRow(t *testing.T) {
	h := start(t)
	for _, route := range h.gateway.rows {
		e := h.explain("full", route.Method, target(route))
		last := e.Checks[len(e.Checks)-1]
		switch {
		case route.Service == "":
			if last.Name == "service" {
				t.Errorf("%s calls %s", route.ID, last.Detail)
			}
		case last.Name != "service" || !strings.HasPrefix(last.Detail, route.Service+" would be called"):
			t.Errorf("%s: %+v", route.ID, last)
		case route.Method == "GET" && !strings.Contains(last.Detail, "ops."+route.Service+".v1."):
			t.Errorf("%s is of %s: %+v", route.ID, route.Service, last)
		}
		if e.Route == nil || e.Route.ID != route.ID || e.Route.Service != route.Service || e.Route.Timeout != defaultTimeout.Seconds() {
			t.Errorf("%s: %+v", route.ID, e.Route)
		}
	}
}

func TestExplanationOfLimits(t *testing.T) {
	limits := []ratelimit.Limit{
		{Name: "second", Requests: 1, Per: time.Second}, {Name: "hour", Requests: 5, Per: time.Hour},
		{Name: "day", Requests: 1, Per: 24 * time.Hour, Shadow: true},
	}
	h, now := limited(t, limits)
	store, p := h.gateway.options.Limiter.(*ratelimit.Memory), h.gateway.options.Policies.All()[0].Policy
	peek := func() Explanation {
		d, err := store.Peek(t.Context(), tokenID, p)
		testkit.Must(t, err)
		principal := h.gateway.options.Authenticator.(tokens)["none"]
		return h.gateway.Explain(ExplainRequest{Path: "/v1/servers", Principal: principal, Decision: &d})
	}
	limitsOf := func(e Explanation) Check {
		return e.Checks[slices.IndexFunc(e.Checks, func(c Check) bool { return c.Name == "limits" })]
	}

	e := peek()
	want := Check{Name: "limits", Outcome: Passes, Detail: "second: 1 of 1 left, hour: 5 of 5 left, day: 1 of 1 left (shadow limit)"}
	if limitsOf(e) != want || e.Answer.FailedCheck != "scope" {
		t.Errorf("%+v", e)
	}
	h.get(t, "/v1/me").mustBe(t, 200)
	for range 3 { // an explanation does not count as a request
		e = peek()
	}
	if e.Answer.FailedCheck != "limits" || e.Answer.RetryAfter < 1 || e.Checks[len(e.Checks)-2].Name != "request" || e.Route == nil {
		t.Errorf("%+v", e)
	}
	mustMatch(t, e, h.do(t, "none", "GET", "/v1/servers", ""))

	*now = now.Add(time.Duration(e.Answer.RetryAfter) * time.Second)
	if got := limitsOf(peek()); got.Outcome != Passes || !strings.Contains(got.Detail, "hour: 4 of 5 left, day: 0 of 1 left (shadow limit, would deny)") {
		t.Errorf("%+v", got)
	}
	unavailable := ExplainRequest{Path: "/v1/me", LimiterErr: &ratelimit.UnavailableError{RetryAfter: 2 * time.Second, Cause: errors.New("no connection")}}
	if e = h.gateway.Explain(unavailable); e.Answer.Status != 503 || e.Answer.Code != "unavailable" || e.Answer.RetryAfter != 2 || e.Answer.FailedCheck != "limits" {
		t.Errorf("%+v", e)
	}
	mustCount(t, h, "opsgate_rate_limit_decisions_total", map[string]float64{
		"second near default": 1, "second denied default": 1, "hour admitted default": 1, "day near default": 1,
	})
}

// If the caller is not known, the results of checks that depend on it are unknown, and count as
// passed.
func TestExplanationWithoutCaller(t *testing.T) {
	e := start(t).gateway.Explain(ExplainRequest{Path: "/v1/servers"})
	var unknown []string
	for _, c := range e.Checks {
		switch c.Outcome {
		case Refuses:
			t.Errorf("%+v", c)
		case Unknown:
			unknown = append(unknown, c.Name)
		}
	}
	if diff := cmp.Diff([]string{"token", "limits", "plan", "scope", "service"}, unknown); diff != "" || e.Answer.Status != 200 {
		t.Errorf("%d %s", e.Answer.Status, diff)
	}
}

func TestExplanationOfLongRequestLine(t *testing.T) {
	h := start(t, func(o *Options) { o.MaxHeaderBytes = 100 })
	if e := h.gateway.Explain(ExplainRequest{Path: "/v1/servers?x=" + strings.Repeat("x", 100)}); e.Answer.Status != 431 || e.Answer.FailedCheck != "header" {
		t.Errorf("%+v", e)
	}
}

func TestExplanationOfInvalidRequest(t *testing.T) {
	h := start(t)
	for _, q := range []ExplainRequest{
		{Path: ""}, {Path: "v1/servers"}, {Path: "/v1/%zz"}, {Path: "/v1/a\r\nX: y"}, {Path: "/v1/me?a=b c"}, {Method: "G T", Path: "/v1/me"},
	} {
		if e := h.gateway.Explain(q); e.Answer.Status != 400 || e.Answer.FailedCheck != "target" || e.Answer.Text == "" || e.Route != nil {
			t.Errorf("%+v: %+v", q, e)
		}
	}
}

func TestExplanationInJSON(t *testing.T) {
	h := start(t)
	scope := h.explain("none", "GET", "/v1/servers/"+someID)
	got, err := json.Marshal(scope)
	testkit.Must(t, err)
	want := `{"answer":{"status":403,"code":"forbidden","cause":"scope","text":"this token lacks the scope servers:read",` +
		`"details":{"required":"servers:read"},"failed_check":"scope"},` +
		`"checks":[{"name":"capacity","outcome":"passes","detail":"0 requests are in flight"},` +
		`{"name":"token","outcome":"passes","detail":"token ` + tokenID + ` of team ` + teamID + `"},` +
		`{"name":"limits","outcome":"unknown","detail":"the remaining requests are not known"},` +
		`{"name":"route","outcome":"passes","detail":"v1GetServer: GET /v1/servers/:id"},` +
		`{"name":"plan","outcome":"passes","detail":"the team has the AI plan"},` +
		`{"name":"scope","outcome":"refuses","detail":"this token lacks the scope servers:read"},` +
		`{"name":"request","outcome":"passes","detail":"path and query are valid"},` +
		`{"name":"service","outcome":"unknown","detail":"fleet would be called: ops.fleet.v1.FleetService/GetServer"}],` +
		`"route":{"id":"v1GetServer","method":"GET","path":"/v1/servers/:id","scope":"servers:read","service":"fleet","timeout_seconds":10}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	denied := ratelimit.Decision{DeniedBy: 0, ShadowDeniedBy: -1, RetryAfter: 1500 * time.Millisecond}
	got, _ = json.Marshal(h.gateway.Explain(ExplainRequest{Path: "/v1/me", Principal: &authn.Principal{}, Decision: &denied}))
	if !strings.Contains(string(got), `"status":429,"code":"rate_limited"`) || !strings.Contains(string(got), `"retry_after_seconds":2,"failed_check":"limits"`) {
		t.Errorf("%s", got)
	}
}

// FuzzExplain compares the explanation of any request with the response to it.
func FuzzExplain(f *testing.F) {
	for _, path := range []string{
		"/v1/me", "/v1/servers", "/v1/servers/" + someID + "/metrics?range=1h", "/v1/audit?limit=0&cursor=%zz", "/v1//x", "*", "http://h/v1/me",
		"/docs/", "//v1/me", "/v1", "/V1/servers", "/v1/servers/", "/v1/servers/../metrics", "/v1/servers%2F" + someID, "/v1/%73ervers", "/v10/servers",
		"/v1/servers/" + strings.ToUpper(someID), "/v1/monitors/" + someID + "/checks?since=yesterday", "/docs//index.html", "/openapi.json", "/",
	} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "BREW"} {
			f.Add(method, path)
		}
	}
	f.Add("POST", "/v1/incidents/x/updates")
	s := &services{answers: map[string]func(context.Context, proto.Message) (proto.Message, error){}}
	s.fail("", status.Error(codes.Aborted, "reached the service"))
	g, err := New(optionsWith(f, s))
	testkit.Must(f, err)
	full, _ := g.options.Authenticator.Authenticate(f.Context(), "full", nil)
	f.Fuzz(func(t *testing.T, method, path string) {
		e := g.Explain(ExplainRequest{Method: method, Path: path, Principal: full})
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer full\r\n\r\n")))
		if err != nil || req.Method != method || req.RequestURI != path || e.Answer.FailedCheck == "target" {
			return
		}
		last := e.Checks[len(e.Checks)-1]
		want := e.Answer.Status
		switch {
		case e.Answer.FailedCheck == "" && last.Name == "service" && e.Route.Method == http.MethodPost:
			want = http.StatusUnprocessableEntity // it has no body
		case e.Answer.FailedCheck == "" && last.Name == "service":
			want = http.StatusConflict
		}
		got := httptest.NewRecorder()
		g.ServeHTTP(got, req)
		if got.Code != want {
			t.Errorf("%q %q: got %d, explained %+v", method, path, got.Code, e)
		}
	})
}
