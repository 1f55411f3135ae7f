package admin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/gate/admin"
)

func TestExplainPassesTheQuestionToTheInspector(t *testing.T) {
	g := new(fakeInspector)
	got := send(newAdmin(g, admin.Access{}, io.Discard), "GET", "/admin/explain?token_id=tok-1&team_id=team-1&method=GET&path=/v1/servers%3Flimit%3D5")
	want := admin.Question{Subject: admin.Subject{TokenID: "tok-1", TeamID: "team-1"}, Method: "GET", Path: "/v1/servers?limit=5"}
	if got.Code != 200 || got.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v", got.Code, got.Header())
	}
	if diff := cmp.Diff(want, decode[admin.Explanation](t, got).Question); diff != "" || len(g.questions) != 1 || g.questions[0] != want {
		t.Errorf("questions %+v, %s", g.questions, diff)
	}
}

func TestInvalidParametersAreNamed(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, test := range []struct {
		name, target string
		problems     []string // keys of the details
	}{
		{"nothing given", "/admin/explain", []string{"method", "path", "token_id"}},
		{"a token id with a blank", "/admin/explain?token_id=a%20b&method=GET&path=/", []string{"token_id"}},
		{"a long token id", "/admin/explain?token_id=" + long[:129] + "&method=GET&path=/", []string{"token_id"}},
		{"a long team id", "/admin/explain?token_id=t&team_id=" + long[:129] + "&method=GET&path=/", []string{"team_id"}},
		{"a method in small letters", "/admin/explain?token_id=t&method=get&path=/", []string{"method"}},
		{"a long method", "/admin/explain?token_id=t&method=" + strings.ToUpper(long[:33]) + "&path=/", []string{"method"}},
		{"a path without a slash", "/admin/explain?token_id=t&method=GET&path=v1", []string{"path"}},
		{"a path that cannot be decoded", "/admin/explain?token_id=t&method=GET&path=/%25zz", []string{"path"}},
		{"a path with a line break", "/admin/explain?token_id=t&method=GET&path=/a%0d%0ab", []string{"path"}},
		{"a long path", "/admin/explain?token_id=t&method=GET&path=/" + long, []string{"path"}},
		{"a parameter twice", "/admin/explain?token_id=t&token_id=u&method=GET&path=/", []string{"token_id"}},
		{"an unknown parameter", "/admin/explain?token_id=t&method=GET&path=/&team=x", []string{"query"}},
		{"a query that cannot be decoded", "/admin/explain?token_id=t&method=GET&path=/&%zz", []string{"query"}},
		{"limits of a bad id", "/admin/limits/a%20b", []string{"token_id"}},
		{"limits of a bad team", "/admin/limits/t?team_id=a%20b", []string{"team_id"}},
		{"no number", "/admin/limits?n=many", []string{"n"}},
		{"none", "/admin/limits?n=0", []string{"n"}},
		{"too many", "/admin/limits?n=1001", []string{"n"}},
		{"no name", "/admin/tokens", []string{"q"}},
		{"a long name", "/admin/tokens?q=" + long[:401], []string{"q"}},
		{"a parameter of the configuration", "/admin/config?x=1", []string{"query"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := new(fakeInspector)
			got := send(newAdmin(g, admin.Access{}, io.Discard), "GET", test.target)
			failure := decode[admin.Failure](t, got)
			if got.Code != 400 || failure.Code != "validation_error" || !slices.Equal(slices.Sorted(maps.Keys(failure.Details)), test.problems) {
				t.Errorf("got %d %+v", got.Code, failure)
			}
			if g.questions != nil || g.subjects != nil || g.searches != nil {
				t.Error("the inspector was called")
			}
		})
	}
}

func TestTokenInURLIsRejectedAndNotRepeated(t *testing.T) {
	token := tokenPrefix + "4f8Tb0d2cZx1sQ9rVn3yKw6mLp7hJgD0A1B2C3"
	for _, target := range []string{
		"/admin/explain?method=GET&path=/&token_id=" + token,
		"/admin/explain?method=GET&path=/&token_id=ops%5Flive_" + token[len(tokenPrefix):],
		"/admin/explain?method=GET&token_id=t&path=/" + token,
		"/admin/explain?method=GET&token_id=t&path=/&" + token,
		"/admin/explain?%zz;" + token,
		"/admin/limits/" + token,
		"/admin/tokens?q=" + token,
		"/admin/limits/ops%5Flive_" + token[len(tokenPrefix):],
		"/admin/nothing/../" + token,
	} {
		for _, method := range []string{"GET", "DELETE"} {
			g, log := new(fakeInspector), new(bytes.Buffer)
			got := send(newAdmin(g, admin.Access{}, log), method, target)
			if got.Code != 400 || !strings.Contains(got.Body.String(), "that is a token; use its id, which is in the access log") {
				t.Errorf("%s %s: got %d %s", method, target, got.Code, got.Body)
			}
			if strings.Contains(got.Body.String()+log.String(), token[len(tokenPrefix):]) || g.resets != nil || g.questions != nil {
				t.Errorf("%s %s: answer %s, log %s", method, target, got.Body, log)
			}
		}
	}
}

func TestLimitsOfAToken(t *testing.T) {
	g := new(fakeInspector)
	got := decode[admin.TokenLimits](t, send(newAdmin(g, admin.Access{}, io.Discard), "GET", "/admin/limits/tok%2F1?team_id=team-1"))
	want := admin.Subject{TokenID: "tok/1", TeamID: "team-1"}
	if got.Subject != want || g.subjects[0] != want || len(got.Limits) != 2 || *got.Limits[0].Remaining != 2 || got.Limits[1].Remaining != nil {
		t.Errorf("got %+v of %+v", got, g.subjects)
	}
}

func TestBusiestTokens(t *testing.T) {
	g := new(fakeInspector)
	a := newAdmin(g, admin.Access{}, io.Discard)
	if got := send(a, "GET", "/admin/limits"); got.Body.String() != `{"scope":"this gateway only","tokens":[]}`+"\n" || g.n != 20 {
		t.Errorf("got %s of %d", got.Body, g.n)
	}
	g.busy = []admin.BusyToken{{TokenID: "tok-1", TeamID: "team-1", Requests: 7, Denied: 3, Error: 1}}
	got := decode[admin.Busy](t, send(a, "GET", "/admin/limits?n=1000"))
	if diff := cmp.Diff(g.busy, got.Tokens); diff != "" || g.n != 1000 {
		t.Errorf("%d: %s", g.n, diff)
	}
}

func TestNamesOfIDs(t *testing.T) {
	post := func(a http.Handler, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/admin/names", strings.NewReader(body)))
		return w
	}
	g := new(fakeInspector)
	a := newAdmin(g, admin.Access{}, io.Discard)
	if got := post(a, `["tok-1","tok-2"]`); got.Body.String() != `{"tok-1":"Deploy bot"}`+"\n" || !slices.Equal(g.searches, []string{"tok-1", "tok-2"}) {
		t.Errorf("got %s of %q", got.Body, g.searches)
	}
	for name, body := range map[string]string{
		"not JSON": "tok-1", "not ids": `[{}]`, "too many": `[""` + strings.Repeat(`,""`, admin.MaxNames) + `]`,
		"too large": `["` + strings.Repeat("x", 2<<20) + `"]`,
	} {
		if got := post(a, body); got.Code != 400 || !strings.Contains(got.Body.String(), `"body":"is a JSON array of at most 10000 ids"`) {
			t.Errorf("%s: got %d %s", name, got.Code, got.Body)
		}
	}
	if len(g.searches) != 2 {
		t.Error("the inspector was called")
	}
}

// line returns the only line of a log.
func line(t *testing.T, log *bytes.Buffer) (line map[string]any) {
	t.Helper()
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%s: %v", log, err)
	}
	delete(line, "time")
	return line
}

func TestResetLogsOperatorAndRemaining(t *testing.T) {
	for _, test := range []struct {
		name         string
		access       admin.Access
		operator     string
		by, operated string
	}{
		{"on loopback", admin.Access{}, "", "local", ""},
		{"with the token", admin.Access{Token: "sesame sesame"}, "ada", "admin token", "ada"},
		{"with a long name", admin.Access{}, strings.Repeat("é", 100), "local", strings.Repeat("é", 64)},
		{"with control characters in the name", admin.Access{}, "a\x1b[31md\u200ba\xff", "local", "a[31mda"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, log := new(fakeInspector), new(bytes.Buffer)
			got := send(newAdmin(g, test.access, log), "DELETE", "/admin/limits/tok-1", header("Authorization", "Bearer "+test.access.Token), header("X-Operator", test.operator))
			if got.Code != 204 || got.Body.Len() != 0 || !slices.Equal(g.resets, []string{"tok-1"}) {
				t.Fatalf("got %d %s, reset %v", got.Code, got.Body, g.resets)
			}
			want := map[string]any{
				"level": "INFO", "msg": "limits of a token were reset", "token_id": "tok-1", "by": test.by, "operator": test.operated,
				"remote": "192.0.2.1:1234", "remaining_before": "second: 2 of 3, hour: an unknown number of 5000",
			}
			if diff := cmp.Diff(want, line(t, log)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFailedResetIsReportedAndLogged(t *testing.T) {
	g, log := &fakeInspector{resetErr: errors.New("redis is down")}, new(bytes.Buffer)
	got := send(newAdmin(g, admin.Access{}, log), "DELETE", "/admin/limits/tok-1")
	if failure := decode[admin.Failure](t, got); got.Code != 503 || failure.Code != "unavailable" ||
		!strings.Contains(failure.Text, "only the usage that this gateway counted was reset") || !strings.Contains(failure.Text, "will count again after the outage") ||
		strings.Contains(failure.Text, "redis is down") {
		t.Errorf("got %d %+v", got.Code, failure)
	}
	if got := line(t, log); got["level"] != "WARN" || got["msg"] != "limits of a token were reset on this gateway only" || got["error"] != "redis is down" || got["token_id"] != "tok-1" {
		t.Errorf("got %v", got)
	}
}

func TestConfiguration(t *testing.T) {
	g := new(fakeInspector)
	a := newAdmin(g, admin.Access{}, io.Discard)
	if diff := cmp.Diff(g.Configuration(), decode[admin.Configuration](t, send(a, "GET", "/admin/config"))); diff != "" {
		t.Error(diff)
	}
	got := send(a, "GET", "/admin/config", header("Accept", "text/plain"))
	want := `# version 0123456789ab, in force since 2026-03-04T12:00:00Z
# file opsgate.yaml
# last reload 2026-03-04T12:00:00Z (SIGHUP): refused
#   opsgate.yaml:3: listn: is not a key
listen: 127.0.0.1:8080  # default
admin.token: (hidden)  # opsgate.yaml:2
rate_limit.classes.partner.reason: "two\nlines"  # opsgate.yaml:9
`
	if got.Body.String() != want || got.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %s", got.Body)
	}
}
