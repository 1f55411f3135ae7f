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
	"opsgate/ratelimit"
)

// ask explains a request of one of the harness's tokens, "" for a caller who is not known.
func (h *harness) ask(token, method, path string) Explanation {
	q := Question{Method: method, Path: path}
	if known, ok := h.gateway.authenticator.(tokens); ok {
		q.Principal = known[token]
	}
	return h.gateway.Explain(q)
}

// What is explained is what is answered: each case is asked about, and then sent.
func TestAnExplanationIsWhatIsAnswered(t *testing.T) {
	h := start(t)
	// The services of this test refuse every call, so that what reaches one can be told from what does not.
	h.services.fail("", status.Error(codes.Aborted, "reached the service"))
	cases := []struct{ token, method, path, because string }{
		{"full", "GET", "/v1/me", ""},
		{"none", "GET", "/v1/me?pretty=1", ""},
		{"full", "GET", "/v1/servers", ""},
		{"full", "HEAD", "/v1/servers", ""},
		{"full", "OPTIONS", "/v1/servers", ""},
		{"full", "OPTIONS", "/v1/incidents/" + someID + "/updates", ""},
		{"full", "OPTIONS", "/v1/nothing", "route"},
		{"full", "OPTIONS", "/v1/servers/a%2Fb", "route"},
		{"none", "OPTIONS", "/v1/servers", ""},
		{"full", "GET", "/v1/servers/" + strings.ToUpper(someID), ""},
		{"full", "GET", "/v1/servers/x", "request"},
		{"none", "GET", "/v1/servers/x", "scope"},
		{"full", "GET", "/v1/servers/" + someID + "/metrics?range=7d", ""},
		{"full", "GET", "/v1/servers/" + someID + "/metrics?range=2h", "request"},
		{"full", "GET", "/v1/incidents?limit=0&limit=1", "request"},
		{"full", "GET", "/v1/monitors/" + someID + "/checks?since=yesterday", "request"},
		{"full", "GET", "/v1/nothing", "route"},
		{"no_plan", "GET", "/v1/nothing", "route"},
		{"full", "GET", "/v1", "route"},
		{"full", "DELETE", "/v1/servers", "route"},
		{"no_plan", "PUT", "/v1/servers", "route"},
		{"full", "GET", "/v1/incidents/" + someID + "/updates", "route"},
		{"full", "BREW", "/v1/me", "route"},
		{"no_plan", "GET", "/v1/servers", "plan"},
		{"none", "GET", "/v1/servers", "scope"},
		{"servers.read", "GET", "/v1/servers/" + someID + "/metrics", "scope"},
		{"full", "GET", "/v1/servers/", "route"},
		{"full", "GET", "//v1/servers", "route"},
		{"full", "GET", "/v1//servers", "route"},
		{"none", "GET", "/v1/servers//metrics", "route"},
		{"full", "POST", "/v1/servers/..", "route"},
		{"full", "GET", "/v1/servers/../metrics", "route"},
		{"full", "GET", "/v1/servers%2F" + someID, "route"},
		{"full", "GET", "/v1/%73ervers", "route"},
		{"full", "GET", "/V1/servers", "route"},
		{"full", "POST", "/v1/incidents/x/updates", "request"},
		{"", "GET", "/elsewhere", "route"},
		{"", "GET", "/v10/servers", "route"},
		{"", "GET", "/openapi.json", ""},
		{"", "HEAD", "/openapi.yaml", ""},
		{"", "OPTIONS", "/docs/", ""},
		{"", "GET", "/docs", ""},
		{"", "HEAD", "/", ""},
		{"", "POST", "/", "route"},
		{"", "POST", "/openapi.json", "route"},
		{"", "GET", "/docs/nothing.js", "request"},
		{"", "GET", "/docs//index.html", "route"},
	}
	for _, c := range cases {
		t.Run(c.token+" "+c.method+" "+c.path, func(t *testing.T) {
			e := h.ask(c.token, c.method, c.path)
			if e.Because != c.because {
				t.Errorf("because %q, want %q: %+v", e.Because, c.because, e.Checks)
			}
			mustAgree(t, e, h.do(t, c.token, c.method, c.path, ""))
		})
	}
}

func TestTheExplanationOfARevokedToken(t *testing.T) {
	h := start(t, ofIdentity(authn.ErrRevoked))
	e := h.gateway.Explain(Question{Path: "/v1/servers", Revoked: &authn.RevokedError{TokenID: tokenID}})
	if e.Because != "token" || e.Cause != causeTokenRevoked || e.Code != "unauthorized" {
		t.Errorf("got %+v", e)
	}
	mustAgree(t, e, h.do(t, "full", "GET", "/v1/servers", ""))
	if i := slices.IndexFunc(e.Checks, func(c Check) bool { return c.Name == "token" }); e.Checks[i].Detail != "the token was revoked" {
		t.Errorf("checks %+v", e.Checks)
	}
}

// mustAgree holds an explanation against the answer to the same request, where a service that is reached answers Aborted.
func mustAgree(t *testing.T, e Explanation, got answer) {
	t.Helper()
	statusOf, code := e.Status, e.Code
	if last := e.Checks[len(e.Checks)-1]; last.Name == "service" && e.Because == "" {
		statusOf, code = 409, "conflict"
	}
	if got.StatusCode != statusOf || got.Header.Get("Allow") != e.Allow {
		t.Errorf("explained as %d, Allow %q; answered %d, Allow %q", statusOf, e.Allow, got.StatusCode, got.Header.Get("Allow"))
	}
	if got.StatusCode < 400 || got.body == "" {
		return
	}
	var told struct {
		Error, Code string
		Details     map[string]string
	}
	if err := json.Unmarshal([]byte(got.body), &told); err != nil {
		t.Fatal(err)
	}
	if told.Code != code {
		t.Errorf("explained as %s; answered %s", code, got.body)
	}
	if e.Because != "" && (told.Error != e.Text || !cmp.Equal(told.Details, e.Details)) {
		t.Errorf("explained as %q %v; answered %s", e.Text, e.Details, got.body)
	}
}

// A row says which service answers it, and its handler calls that service and no other.
func TestEachRowNamesTheServiceThatItCalls(t *testing.T) {
	h := start(t)
	for _, route := range h.gateway.Routes() {
		e := h.ask("full", route.Method, target(route))
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
		if e.Route == nil || e.Route.ID != route.ID || e.Route.Service != route.Service || e.Route.Timeout != DefaultTimeout {
			t.Errorf("%s: %+v", route.ID, e.Route)
		}
	}
}

func TestAnExplanationOfLimits(t *testing.T) {
	limits := []ratelimit.Limit{
		{Name: "second", Requests: 1, Per: time.Second}, {Name: "hour", Requests: 5, Per: time.Hour},
		{Name: "day", Requests: 1, Per: 24 * time.Hour, Shadow: true},
	}
	h, now := limited(t, limits)
	store, p := h.gateway.limiter.(*ratelimit.Memory), h.gateway.policies.All()[0].Policy
	peek := func() Explanation {
		d, err := store.Peek(t.Context(), tokenID, p)
		if err != nil {
			t.Fatal(err)
		}
		principal := h.gateway.authenticator.(tokens)["none"]
		return h.gateway.Explain(Question{Path: "/v1/servers", Principal: principal, Decision: &d})
	}
	limitsOf := func(e Explanation) Check {
		return e.Checks[slices.IndexFunc(e.Checks, func(c Check) bool { return c.Name == "limits" })]
	}

	e := peek()
	want := Check{Name: "limits", Passes: true, Known: true, Detail: "second: 1 of 1 left, hour: 5 of 5 left, day: 1 of 1 left (in shadow)"}
	if limitsOf(e) != want || e.Because != "scope" {
		t.Errorf("%+v", e)
	}
	h.get(t, "/v1/me").mustBe(t, 200)
	for range 3 { // asking spends nothing
		e = peek()
	}
	if e.Because != "limits" || e.RetryAfter < time.Second || e.Checks[len(e.Checks)-2].Name != "request" || e.Route == nil {
		t.Errorf("%+v", e)
	}
	mustAgree(t, e, h.do(t, "none", "GET", "/v1/servers", ""))

	*now = now.Add(e.RetryAfter)
	if got := limitsOf(peek()); !got.Passes || !strings.Contains(got.Detail, "hour: 4 of 5 left, day: 0 of 1 left (in shadow, would refuse)") {
		t.Errorf("%+v", got)
	}
	away := Question{Path: "/v1/me", LimiterErr: &ratelimit.UnavailableError{RetryAfter: 2 * time.Second, Cause: errors.New("away")}}
	if e = h.gateway.Explain(away); e.Status != 503 || e.Code != "unavailable" || e.RetryAfter != 2*time.Second || e.Because != "limits" {
		t.Errorf("%+v", e)
	}
	mustCount(t, h, "opsgate_rate_limit_decisions_total", map[string]float64{
		"second near default": 1, "second denied default": 1, "hour admitted default": 1, "day near default": 1,
	})
}

// Of a caller who is not known, what cannot be told is taken to pass.
func TestAnExplanationForNobody(t *testing.T) {
	e := start(t).gateway.Explain(Question{Path: "/v1/servers"})
	var unknown []string
	for _, c := range e.Checks {
		if !c.Passes {
			t.Errorf("%+v", c)
		}
		if !c.Known {
			unknown = append(unknown, c.Name)
		}
	}
	if diff := cmp.Diff([]string{"token", "limits", "plan", "scope", "service"}, unknown); diff != "" || e.Status != 200 {
		t.Errorf("%d %s", e.Status, diff)
	}
}

func TestALineThatIsTooLongIsExplained(t *testing.T) {
	h := start(t, func(o *Options) { o.MaxHeaderBytes = 100 })
	if e := h.gateway.Explain(Question{Path: "/v1/servers?x=" + strings.Repeat("x", 100)}); e.Status != 431 || e.Because != "header" {
		t.Errorf("%+v", e)
	}
}

func TestWhatIsNoRequestIsExplainedAsSuch(t *testing.T) {
	h := start(t)
	for _, q := range []Question{
		{Path: ""}, {Path: "v1/servers"}, {Path: "/v1/%zz"}, {Path: "/v1/a\r\nX: y"}, {Method: "G T", Path: "/v1/me"},
	} {
		if e := h.gateway.Explain(q); e.Status != 400 || e.Because != "target" || e.Text == "" || e.Route != nil {
			t.Errorf("%+v: %+v", q, e)
		}
	}
}

func TestAnExplanationInJSON(t *testing.T) {
	h := start(t)
	scope := h.ask("none", "GET", "/v1/servers/"+someID)
	got, err := json.Marshal(scope)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"route":{"id":"v1GetServer","method":"GET","path":"/v1/servers/:id","scope":"servers:read","service":"fleet","timeout_seconds":10},` +
		`"status":403,"code":"forbidden","cause":"scope","text":"this token lacks the scope servers:read","details":{"required":"servers:read"},"because":"scope",` +
		`"checks":[{"name":"capacity","passes":true,"known":true,"detail":"0 requests are under way"},` +
		`{"name":"token","passes":true,"known":true,"detail":"token ` + tokenID + ` of team ` + teamID + `"},` +
		`{"name":"limits","passes":true,"known":false,"detail":"it is not known what is left of the limits"},` +
		`{"name":"route","passes":true,"known":true,"detail":"v1GetServer: GET /v1/servers/:id"},` +
		`{"name":"plan","passes":true,"known":true,"detail":"the team has the AI plan"},` +
		`{"name":"scope","passes":false,"known":true,"detail":"this token lacks the scope servers:read"},` +
		`{"name":"request","passes":true,"known":true,"detail":"path and query can be read"},` +
		`{"name":"service","passes":true,"known":false,"detail":"fleet would be called: ops.fleet.v1.FleetService/GetServer"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	refused := ratelimit.Decision{Denied: 0, Shadowed: -1, RetryAfter: 1500 * time.Millisecond}
	got, _ = json.Marshal(h.gateway.Explain(Question{Path: "/v1/me", Principal: &authn.Principal{}, Decision: &refused}))
	if !strings.Contains(string(got), `"status":429,"code":"rate_limited"`) || !strings.Contains(string(got), `"retry_after_seconds":2,"because":"limits"`) {
		t.Errorf("%s", got)
	}
}

// Whatever is asked about is explained as it is answered.
func FuzzExplain(f *testing.F) {
	for _, path := range []string{"/v1/me", "/v1/servers/" + someID + "/metrics?range=1h", "/v1/audit?limit=0&cursor=%zz", "/v1//x", "*", "http://h/v1/me", "/docs/", "//v1/me"} {
		f.Add("GET", path)
		f.Add("OPTIONS", path)
	}
	f.Add("POST", "/v1/incidents/x/updates")
	s := &services{answers: map[string]func(context.Context, proto.Message) (proto.Message, error){}}
	s.fail("", status.Error(codes.Aborted, "reached the service"))
	g, err := New(optionsWith(f, s))
	if err != nil {
		f.Fatal(err)
	}
	full, _ := g.authenticator.Authenticate(f.Context(), "full", nil)
	f.Fuzz(func(t *testing.T, method, path string) {
		e := g.Explain(Question{Method: method, Path: path, Principal: full})
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer full\r\n\r\n")))
		if err != nil || req.Method != method || req.RequestURI != path || e.Because == "target" {
			return
		}
		last := e.Checks[len(e.Checks)-1]
		want := e.Status
		switch {
		case e.Because == "" && last.Name == "service" && e.Route.Method == http.MethodPost:
			want = http.StatusUnprocessableEntity // it has no body
		case e.Because == "" && last.Name == "service":
			want = http.StatusConflict
		}
		got := httptest.NewRecorder()
		g.ServeHTTP(got, req)
		if got.Code != want {
			t.Errorf("%q %q: answered %d, explained %+v", method, path, got.Code, e)
		}
	})
}
