package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// nilAuthenticator violates the contract of Authenticator: it returns neither a principal nor an
// error.
type nilAuthenticator struct{}

func (nilAuthenticator) Authenticate(context.Context, string, authn.Source) (*authn.Principal, error) {
	return nil, nil
}

func TestRouteTableMatchesOpenAPI(t *testing.T) {
	type row struct{ id, method, path, scope, fields, sunset string }
	var served, described []row
	for _, r := range start(t).gateway.rows {
		scope := string(r.Scope)
		if r.Scope == anyToken {
			scope = ""
		}
		sunset := ""
		if _, values := r.deprecation(); values != nil {
			sunset = values[0]
		}
		served = append(served, row{r.ID, r.Method, strings.ReplaceAll(r.Path, ":id", "{id}"), scope, fmt.Sprint(slices.Sorted(slices.Values(r.Fields))), sunset})
	}
	for _, o := range openapitest.Operations() {
		described = append(described, row{o.ID, o.Method, o.Path, o.Scope, fmt.Sprint(o.Fields), o.Sunset})
	}
	if len(served) == 0 {
		t.Error("the gateway has no routes")
	}
	for _, r := range served {
		if !slices.Contains(described, r) {
			t.Errorf("%+v is served and not described in source.yaml", r)
		}
	}
	for _, r := range described {
		if !slices.Contains(served, r) {
			t.Errorf("%+v is described and not served", r)
		}
	}
}

func TestInvalidRouteTableIsRejected(t *testing.T) {
	handle := func(*Request) (Reply, error) { return Reply{}, nil }
	good := Route{ID: "a", Method: "GET", Path: "/v1/a", Scope: anyToken, Handle: handle}
	testkit.Must(t, checkRoutes([]Route{good}))
	for name, change := range map[string]func(*Route){
		"no scope decision": func(r *Route) { r.Scope = "" },
		"unknown scope":     func(r *Route) { r.Scope = "servers:write" },
		"no handler":        func(r *Route) { r.Handle = nil },
		"no id":             func(r *Route) { r.ID = "" },
		"unknown method":    func(r *Route) { r.Method = "FETCH" },
		"no sunset":         func(r *Route) { r.Deprecated = time.Unix(1, 0) },
		"no deprecation":    func(r *Route) { r.Sunset = time.Unix(1, 0) },
		"sunset before":     func(r *Route) { r.Deprecated, r.Sunset = time.Unix(2, 0), time.Unix(1, 0) },
	} {
		bad := good
		change(&bad)
		if checkRoutes([]Route{bad}) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if checkRoutes([]Route{good, good}) == nil {
		t.Error("the same row twice: accepted")
	}
}

// A reload creates a Gateway and drops the previous one, so a Gateway must not need a Close.
func TestGatewayRunsNoGoroutines(t *testing.T) {
	o := optionsWith(t, &services{})
	before := goleak.IgnoreCurrent()
	if _, err := New(o); err != nil {
		t.Fatal(err)
	}
	// Connections of the clients may start goroutines meanwhile, so the test looks for goroutines
	// that New created.
	if err := goleak.Find(before); err != nil && strings.Contains(err.Error(), "created by opsgate/gateway.") {
		t.Error(err)
	}
}

// Each request fails two checks, and gets the response of the first (docs/integrate/contract.md,
// "Order of checks").
func TestOrderOfChecks(t *testing.T) {
	h := start(t)
	cases := []struct {
		name, token, method, target, body string
		status                            int
		code                              string
	}{
		{"header before token", "", "GET", "/v1/servers?" + strings.Repeat("x", defaultMaxHeaderBytes), "", 431, "headers_too_large"},
		{"token before route", "", "GET", "/v1/nothing", "", 401, "unauthorized"},
		{"token before method", "bad", "DELETE", "/v1/servers", "", 401, "unauthorized"},
		{"token before options", "", "OPTIONS", "/v1/servers", "", 401, "unauthorized"},
		{"the prefix itself belongs to the API", "", "GET", "/v1", "", 401, "unauthorized"},
		{"route before plan", "no_plan", "GET", "/v1/nothing", "", 404, "not_found"},
		{"method before plan", "no_plan", "PUT", "/v1/servers", "", 405, "method_not_allowed"},
		{"plan before scope", "no_plan", "GET", "/v1/servers", "", 403, "forbidden"},
		{"scope before path", "none", "GET", "/v1/servers/x", "", 403, "forbidden"},
		{"scope before query", "none", "GET", "/v1/incidents?limit=0", "", 403, "forbidden"},
		{"scope before body", "none", "POST", "/v1/incidents", "{", 403, "forbidden"},
		{"dot segment before method", "full", "POST", "/v1/servers/..", "", 404, "not_found"},
		{"encoded slash before method", "full", "DELETE", "/v1/servers/a%2Fb", "", 404, "not_found"},
		{"encoded slash before options", "full", "OPTIONS", "/v1/servers/a%2Fb", "", 404, "not_found"},
		{"dot segment before scope", "none", "GET", "/v1/servers/../metrics", "", 404, "not_found"},
		{"empty segment before scope", "none", "GET", "/v1/servers//metrics", "", 404, "not_found"},
		{"path before body", "full", "POST", "/v1/incidents/x/updates", "{", 404, "not_found"},
		{"path before query", "full", "GET", "/v1/servers/x/metrics?range=2h", "", 404, "not_found"},
		{"outside needs no token", "", "GET", "/elsewhere", "", 404, "not_found"},
		{"a longer first segment is outside of the API", "", "GET", "/v10/servers", "", 404, "not_found"},
		{"unavailable identity service is a 503", "identity-unavailable", "GET", "/v1/servers", "", 503, "unavailable"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h.do(t, c.token, c.method, c.target, c.body).mustFail(t, c.status, c.code)
		})
	}
}

func TestCredentials(t *testing.T) {
	h := start(t)
	cases := []struct {
		name      string
		headers   []string
		target    string
		status    int
		challenge string
	}{
		{"none", nil, "/v1/me", 401, `Bearer`},
		{"another scheme", []string{"Authorization: Basic YTpi"}, "/v1/me", 401, `Bearer`},
		{"no scheme", []string{"Authorization: full"}, "/v1/me", 401, `Bearer`},
		{"an empty token", []string{"Authorization: Bearer "}, "/v1/me", 401, `Bearer`},
		{"in the query", nil, "/v1/me?access_token=full&token=full", 401, `Bearer`},
		{"in a cookie", []string{"Cookie: token=full"}, "/v1/me", 401, `Bearer`},
		{"malformed", []string{"Authorization: Bearer a b"}, "/v1/me", 401, `Bearer error="invalid_token"`},
		{"unknown", []string{"Authorization: Bearer unknown"}, "/v1/me", 401, `Bearer error="invalid_token"`},
		{"twice", []string{"Authorization: Bearer full", "Authorization: Bearer full"}, "/v1/me", 401, `Bearer error="invalid_token"`},
		{"scheme in capitals", []string{"Authorization: BEARER full"}, "/v1/me", 200, ""},
	}
	texts := make(map[string]string) // by challenge
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := h.do(t, "", "GET", c.target, "", c.headers...).mustBe(t, c.status)
			if challenge := got.Header.Get("Www-Authenticate"); challenge != c.challenge {
				t.Errorf("WWW-Authenticate = %q, want %q", challenge, c.challenge)
			}
			if c.status == 401 {
				if text := texts[c.challenge]; text != "" && text != got.body {
					t.Errorf("the texts differ: %s, %s", text, got.body)
				}
				texts[c.challenge] = got.body
				if explains := strings.Contains(got.body, "Authorization: Bearer <token>"); explains != (c.challenge == "Bearer") {
					t.Errorf("the text is %s", got.body)
				}
			}
		})
	}
}

func TestAllowListsTheMethodsOfThePath(t *testing.T) {
	h := start(t)
	cases := []struct{ method, target, allow string }{
		{"DELETE", "/v1/servers", "GET, HEAD, OPTIONS"},
		{"PATCH", "/v1/incidents", "GET, HEAD, OPTIONS, POST"},
		{"GET", "/v1/incidents/" + someID + "/updates", "OPTIONS, POST"},
		{"HEAD", "/v1/incidents/no-id/updates", "OPTIONS, POST"},
		{"BREW", "/v1/me", "GET, HEAD, OPTIONS"},
		{"POST", "/openapi.json", "GET, HEAD, OPTIONS"},
		{"POST", "/docs/", "GET, HEAD, OPTIONS"},
		{"POST", "/docs", "GET, HEAD, OPTIONS"},
		{"PUT", "/", "GET, HEAD, OPTIONS"},
	}
	for _, c := range cases {
		got := h.do(t, "full", c.method, c.target, "")
		if c.method != "HEAD" {
			got.mustFail(t, 405, "method_not_allowed")
		}
		if allow := got.mustBe(t, 405).Header.Get("Allow"); allow != c.allow {
			t.Errorf("%s %s: Allow = %q, want %q", c.method, c.target, allow, c.allow)
		}
		asked := h.do(t, "full", "OPTIONS", c.target, "").mustBe(t, 204)
		if allow := asked.Header.Get("Allow"); allow != c.allow || asked.body != "" {
			t.Errorf("OPTIONS %s: Allow = %q, body %q", c.target, allow, asked.body)
		}
	}
	if allow := h.do(t, "", "DELETE", "/v1/servers", "").Header.Get("Allow"); allow != "" {
		t.Errorf("without a token, Allow = %q", allow)
	}
	override := h.do(t, "full", "GET", "/v1/me?_method=DELETE", "", "X-Http-Method-Override: DELETE")
	override.mustBe(t, 200)
}

func TestPathsAreNotNormalized(t *testing.T) {
	h := start(t)
	h.services.reply("", &fleetv1.GetServerResponse{})
	for _, path := range []string{
		"/v1/servers/", "//v1/servers", "/v1//servers", "/v1/./servers", "/v1/x/../servers", "/v1%2Fservers", "/v1/servers%2F" + someID,
		"/v1/servers%2f", "/.well-known/../v1/servers", "/.well-known/./security.txt", "/.well-known", "/V1/servers", "/v1/Servers", "/v1/%73ervers", "/docs/nothing.js", "/openapi.json/", "/docs//", "//", "/docs%2F", "/Docs", "/index.html",
		"/v1/servers/{" + someID + "}", "/v1/servers/urn:uuid:" + someID, "/v1/servers/" + strings.ReplaceAll(someID, "-", ""),
		"/v1/servers/" + someID[:35], "/v1/servers/" + someID + "0", "/v1/servers/" + strings.Replace(someID, "c", "g", 1),
		"/v1/servers/" + strings.Replace(someID, "-", "0", 1), "/v1/servers/%20", "/v1/servers/%00", "/v1/incidents/x/updates/y",
	} {
		got := h.get(t, path)
		got.mustFail(t, 404, "not_found")
		if got.Header.Get("Location") != "" {
			t.Errorf("%s is redirected", path)
		}
	}
}

func TestRootAndDocsRedirectToTheDocumentation(t *testing.T) {
	h := start(t)
	for _, method := range []string{"GET", "HEAD"} {
		for path, status := range map[string]int{"/docs": 308, "/": 307, "/docs?page=//example.com": 308, "/?": 307} {
			got := h.do(t, "", method, path, "").mustBe(t, status)
			if got.Header.Get("Location") != "/docs/" || got.body != "" || got.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s %s: %q, %v", method, path, got.body, got.Header)
			}
		}
	}
}

func TestUnknownPathAndMissingResourceHaveDifferentTexts(t *testing.T) {
	h := start(t)
	h.services.fail("", status.Error(codes.NotFound, ""))
	for target, text := range map[string]string{
		"/v1/nothing": "no such path", "/v1/servers/": "no such path", "/elsewhere": "no such path", "/docs/nothing.js": "no such path",
		"/v1/v1/servers": "no such path: it has /v1 twice, so the base URL of the client must not end in /v1", "/v1/v1": "no such path",
		"/v1//v1/servers": "no such path: it has /v1 twice, so the base URL of the client must not end in /v1",
		"//v1/servers":    "no such path: it has two slashes, so the base URL of the client must not end in a slash",
		"/v1/servers/x":   "no such resource", "/v1/servers/" + someID: "no such resource",
	} {
		got := h.get(t, target)
		got.mustFail(t, 404, "not_found")
		if !strings.Contains(got.body, `"error":"`+text+`"`) {
			t.Errorf("%s: %s, want %s", target, got.body, text)
		}
	}
}

// The id is repeated in the response, in logs, in traces and in calls of services, and names of
// parameters in the response.
func TestTextsOfTheClientThatContainATokenAreNotRepeated(t *testing.T) {
	h := start(t, func(o *Options) { o.LiveTokenPrefix = "ops_live_" })
	for sent, taken := range map[string]bool{"ops_live_abc": false, "x-ops_live_abc-y": false, "ops_test_abc": true} {
		if got := h.get(t, "/v1/me", "X-Request-Id: "+sent).Header.Get("X-Request-Id"); (got == sent) != taken {
			t.Errorf("sent %q, got %q", sent, got)
		}
	}
	const query = "?ops_live_abc&x%6fps%5flive_abc=1&ops_test_abc"
	if got := h.get(t, "/v1/me"+query).Header.Get("Ignored-Parameters"); got != `"ops_test_abc"` {
		t.Errorf("%s: Ignored-Parameters %s", query, got)
	}
}

func TestLogLinesContainNoSecrets(t *testing.T) {
	h := start(t)
	h.get(t, "/v1/me?token=SECRET-IN-QUERY")
	h.do(t, "full", "S3CRETMETHOD", "/v1/me", "")
	h.do(t, "unknown-SECRET", "GET", "/v1/me", "")
	log := h.log.String()
	for _, want := range []string{
		`"route":"v1Me","status":200,"code":"ok"`, `"team_id":"` + teamID + `"`, `"token_id":"` + tokenID + `"`, `"latency_us":`, `"method":"other"`,
		`"status":401,"code":"unauthorized"`, `"cause":"token:unknown"`, `"error":"`, `"path":"/v1/me"`, `"request_id":"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
	if strings.Contains(log, "SECRET") || strings.Contains(log, "S3CRET") {
		t.Errorf("text of the client is in the log: %s", log)
	}
}
