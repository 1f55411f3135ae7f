package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

func TestExplainAnswersTheQuestion(t *testing.T) {
	got := send(New(options(t)), "GET", "/admin/explain?token_id=tok-1&team_id=team-1&method=GET&path=/v1/servers%3Flimit%3D5")
	want := Question{Subject: Subject{TokenID: "tok-1", TeamID: "team-1"}, Method: "GET", Path: "/v1/servers?limit=5"}
	if x := decode[Explanation](t, got); got.Code != 200 || x.Question != want || x.Route == nil || x.Route.ID != "v1ListServers" {
		t.Errorf("got %d %+v", got.Code, x)
	}
}

func TestInvalidParametersAreNamed(t *testing.T) {
	long, a := strings.Repeat("x", 5000), New(options(t))
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
			got := send(a, "GET", test.target)
			failure := decode[Failure](t, got)
			if got.Code != 400 || failure.Code != "validation_error" || !slices.Equal(slices.Sorted(maps.Keys(failure.Details)), test.problems) {
				t.Errorf("got %d %+v", got.Code, failure)
			}
		})
	}
}

func TestTokenInURLIsRejectedAndNotRepeated(t *testing.T) {
	parts, token := options(t), tokenPrefix+"4f8Tb0d2cZx1sQ9rVn3yKw6mLp7hJgD0A1B2C3"
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
			log := new(bytes.Buffer)
			got := send(parts.withAccess(Access{}, log), method, target)
			if got.Code != 400 || !strings.Contains(got.Body.String(), "that is a token; use its id, which is in the access log") {
				t.Errorf("%s %s: got %d %s", method, target, got.Code, got.Body)
			}
			if strings.Contains(got.Body.String()+log.String(), token[len(tokenPrefix):]) {
				t.Errorf("%s %s: answer %s, log %s", method, target, got.Body, log)
			}
		}
	}
}

func TestLimitsOfAToken(t *testing.T) {
	a := New(options(t))
	got := decode[TokenLimits](t, send(a, "GET", "/admin/limits/tok%2F1?team_id=team-1"))
	if want := (Subject{TokenID: "tok/1", TeamID: "team-1"}); got.Subject != want || len(got.Limits) != 2 || *got.Limits[0].Remaining != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestBusiestTokens(t *testing.T) {
	o := options(t)
	a := New(o)
	if got := send(a, "GET", "/admin/limits"); got.Body.String() != `{"scope":"this gateway only","tokens":[]}`+"\n" {
		t.Errorf("got %s", got.Body)
	}
	for i := range 30 {
		for range 40 - i {
			o.Busiest.Add(heavyhitters.Token{TokenID: idOf(i), TeamID: "team-1", TokenName: "Deploy bot"}, i == 0)
		}
	}
	for target, want := range map[string]int{"/admin/limits": 20, "/admin/limits?n=1000": 30} {
		got := decode[Busy](t, send(a, "GET", target))
		first := BusyToken{TokenIdentity: TokenIdentity{TokenID: idOf(0), TeamID: "team-1", TokenName: "Deploy bot"}, Requests: 40, Denied: 40}
		if len(got.Tokens) != want || got.Tokens[0] != first {
			t.Errorf("%s: %+v", target, got)
		}
	}
}

func TestNamesOfIDs(t *testing.T) {
	a := New(options(t))
	for name, test := range map[string]struct {
		body, want string
		status     int
	}{
		"ids":       {`["` + idOf(33) + `","tok-2"]`, `{"` + idOf(33) + `":"Bot 33"}`, 200},
		"not JSON":  {"tok-1", "is a JSON array of at most 10000 ids", 400},
		"not ids":   {`[{}]`, "is a JSON array of at most 10000 ids", 400},
		"too many":  {`[""` + strings.Repeat(`,""`, MaxNames) + `]`, "is a JSON array of at most 10000 ids", 400},
		"too large": {`["` + strings.Repeat("x", 2<<20) + `"]`, "is a JSON array of at most 10000 ids", 400},
	} {
		got := send(a, "POST", "/admin/names", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(test.body)) })
		if got.Code != test.status || !strings.Contains(got.Body.String(), test.want) {
			t.Errorf("%s: got %d %s", name, got.Code, got.Body)
		}
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
	parts := options(t)
	for _, test := range []struct {
		name         string
		access       Access
		operator     string
		by, operated string
	}{
		{"on loopback", Access{}, "", "local", ""},
		{"with the token", Access{Token: "sesame sesame"}, "ada", "admin token", "ada"},
		{"with a long name", Access{}, strings.Repeat("é", 100), "local", strings.Repeat("é", 64)},
		{"with control characters in the name", Access{}, "a\x1b[31md\u200ba\xff", "local", "a[31mda"},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := new(bytes.Buffer)
			_, err := parts.Limits.Decide(t.Context(), "tok-1", parts.Active().Policies.For("", "tok-1", "").Policy)
			testkit.Must(t, err)
			a := parts.withAccess(test.access, log)
			got := send(a, "DELETE", "/admin/limits/tok-1", header("Authorization", "Bearer "+test.access.Token), header("X-Operator", test.operator))
			if left := a.limitsOf(t.Context(), Subject{TokenID: "tok-1"}).Limits[0].Remaining; got.Code != 204 || got.Body.Len() != 0 || *left != 3 {
				t.Fatalf("got %d %s, %d remaining", got.Code, got.Body, *left)
			}
			want := map[string]any{
				"level": "INFO", "msg": "limits of a token were reset", "token_id": "tok-1", "by": test.by, "operator": test.operated,
				"remote": "192.0.2.1:1234", "remaining_before": "second: 2 of 3, hour: 4999 of 5000",
			}
			if diff := cmp.Diff(want, line(t, log)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// brokenLimits is a store that cannot be reached.
type brokenLimits struct{ ratelimit.Store }

func (brokenLimits) Reset(context.Context, string) error { return errors.New("redis is down") }

func (brokenLimits) Peek(context.Context, string, *ratelimit.Policy) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, errors.New("redis is down")
}

func TestFailedResetIsReportedAndLogged(t *testing.T) {
	o, log := options(t), new(bytes.Buffer)
	o.Limits = brokenLimits{}
	got := send(o.withAccess(Access{}, log), "DELETE", "/admin/limits/tok-1")
	failure := decode[Failure](t, got)
	testkit.Contains(t, failure.Text, "only the usage that this gateway counted was reset", "will count again after the outage")
	if got.Code != 503 || failure.Code != "unavailable" || strings.Contains(failure.Text, "redis is down") {
		t.Errorf("got %d %+v", got.Code, failure)
	}
	if got := line(t, log); got["level"] != "WARN" || got["msg"] != "limits of a token were reset on this gateway only" || got["error"] != "redis is down" ||
		got["token_id"] != "tok-1" || got["remaining_before"] != "second: an unknown number of 3, hour: an unknown number of 5000" {
		t.Errorf("got %v", got)
	}
}

func TestConfiguration(t *testing.T) {
	o := options(t)
	active := o.Active()
	active.LastReload = &Reload{At: noon, Why: "SIGHUP", Outcome: "refused", Problems: []string{"opsgate.yaml:3: listn: is not a key"}}
	o.Active = func() Active { return active }
	a := New(o)
	want := active.Configuration
	want.Values = active.Loaded.Effective()
	if diff := cmp.Diff(want, decode[Configuration](t, send(a, "GET", "/admin/config"))); diff != "" || len(want.Values) == 0 {
		t.Error(diff)
	}
}
