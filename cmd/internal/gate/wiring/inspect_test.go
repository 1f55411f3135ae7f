package wiring_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"opsgate/backendclient/breaker"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/gateway"
	"opsgate/internal/testkit"
)

func (r *running) explain(t *testing.T, method, path string, more ...string) admin.Explanation {
	t.Helper()
	query := url.Values{"token_id": {servicestest.TokenID}, "method": {method}, "path": {path}}
	for j := 0; j < len(more); j += 2 {
		query.Set(more[j], more[j+1])
	}
	return getJSON[admin.Explanation](t, r, "/admin/explain?"+query.Encode())
}

// calls returns the number of finished calls to internal services.
func (r *running) calls(t *testing.T) (n int) {
	t.Helper()
	metrics := r.get(t, r.AdminAddress(), "/metrics").body
	for _, match := range regexp.MustCompile(`(?m)^opsgate_upstream_request_duration_seconds_count\{.*\} (\d+)$`).FindAllStringSubmatch(metrics, -1) {
		count, _ := strconv.Atoi(match[1])
		n += count
	}
	return n
}

// outcomes returns the outcome of each check by its name.
func outcomes(x admin.Explanation) map[string]string {
	list := make(map[string]string)
	for _, c := range x.Checks {
		list[c.Name] = c.Outcome
	}
	return list
}

const overrides = `rate_limit:
  limits: [{requests: 100, per: 1m}]
  classes:
    partner:
      limits:
        - {requests: 50, per: 1m}
      teams: [5d6f0f8a-2f5b-4b52-8a41-8f8b4a1f7c01]
  tokens:
    0b8e3a0e-7c5e-4f57-9d0c-0d7f2a8f2a11:
      limits:
        - {name: few, requests: 2, per: 1h}
        - {name: trial, requests: 1, per: 30m, shadow: true}
      owner: ada
      reason: on trial
      expires: 2099-01-01T00:00:00Z
`

func TestExplainAdmittedRequest(t *testing.T) {
	i := start(t, overrides)
	i.readiness(t, "ready")
	i.mustGet(t, "/v1/servers", 200)
	x := i.explain(t, "GET", "/v1/servers")
	if want := (gateway.Answer{Status: 200, Code: "ok"}); !cmp.Equal(x.Answer, want) || x.TokenID != servicestest.TokenID || x.At.IsZero() || len(x.Version) != 12 {
		t.Errorf("got %+v", x)
	}
	if x.Route == nil || *x.Route != (gateway.ExplainedRoute{ID: "v1ListServers", Method: "GET", Path: "/v1/servers", Scope: "servers:read", Service: "fleet", Timeout: 10}) {
		t.Errorf("route %+v", x.Route)
	}
	well := func(name string) *admin.Service {
		return &admin.Service{Name: name, State: "ready", Breaker: &breaker.Status{State: "closed"}}
	}
	if diff := cmp.Diff(well("identity"), &x.Identity); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(well("fleet"), x.Service); diff != "" || x.Store != (admin.Store{Mode: "memory"}) {
		t.Errorf("store %+v, service %s", x.Store, diff)
	}
	expires, plan, one, none, line := "2099-01-01T00:00:00Z", true, 1, 0, func(n int) string { return fmt.Sprintf("%s:%d", i.file, n) }
	if p := x.Policy; p.Expires.Format("2006-01-02T15:04:05Z07:00") != expires {
		t.Errorf("policy %+v", p)
	}
	x.Policy.Expires = time.Time{}
	for j, l := range x.Limits {
		if l.Reset == nil || *l.Reset <= l.Per-600 || *l.Reset > l.Per+61 {
			t.Errorf("limit %+v", l)
		}
		x.Limits[j].Reset = nil
	}
	want := admin.TokenState{
		Token:  admin.Token{Cached: true, Freshness: "fresh", TeamID: servicestest.TeamID, AIPlan: &plan, Scopes: []string{"servers:read"}},
		Policy: admin.Policy{Class: "token", Key: "rate_limit.tokens." + servicestest.TokenID, Origin: line(17), Owner: "ada", Reason: "on trial"},
		Limits: []admin.Limit{
			{Name: "few", Requests: 2, Per: 3600, Remaining: &one, Origin: line(19)},
			{Name: "trial", Requests: 1, Per: 1800, Shadow: true, Remaining: &none, Origin: line(20)},
		},
		Store: admin.Store{Mode: "memory"},
	}
	if diff := cmp.Diff(want, x.TokenState, cmpopts.IgnoreUnexported(admin.TokenState{})); diff != "" {
		t.Error(diff)
	}
}

func TestExplainWithAnUnavailableService(t *testing.T) {
	i := start(t, overrides, "OPSGATE_UPSTREAMS_FLEET_ADDRESS=127.0.0.1:1")
	var x admin.Explanation
	testkit.Eventually(t, "fleet is unavailable", func() bool {
		x = i.explain(t, "GET", "/v1/servers")
		return x.Answer.FailedCheck != ""
	})
	got := i.get(t, i.Address(), "/v1/servers")
	if x.Answer.Status != got.status || got.status != 503 || x.Answer.Code != "unavailable" || outcomes(x)["service"] != gateway.Refuses {
		t.Errorf("explained %+v, answered %+v", x, got)
	}
	if want := strconv.FormatInt(x.Answer.RetryAfter, 10); got.header.Get("Retry-After") != want {
		t.Errorf("answered %v, want %s", got.header, want)
	}
	if x := i.explain(t, "GET", "/v1/nothing"); x.Answer.Status != 404 {
		t.Errorf("refused by an earlier check: %+v", x.Answer)
	}
}

func TestExplainUsesTheTeamOfACachedToken(t *testing.T) {
	classes, _, _ := strings.Cut(overrides, "  tokens:\n")
	i := start(t, classes)
	i.get(t, i.Address(), "/v1/servers")
	for _, team := range []string{"", "another"} {
		x := i.explain(t, "GET", "/v1/servers", "team_id", team)
		if x.Policy.Class != "partner" || x.Policy.TeamUnknown || x.Token.TeamID != servicestest.TeamID || *x.Limits[0].Remaining != 49 {
			t.Errorf("with team %q: got %+v", team, x.TokenState)
		}
	}
}

func TestExplainMakesNoCallsAndCountsNoRequests(t *testing.T) {
	i := start(t, overrides)
	i.get(t, i.Address(), "/v1/servers")
	target := "/admin/limits/" + servicestest.TokenID
	before, calls := getJSON[admin.TokenLimits](t, i, target), i.calls(t)
	if calls == 0 {
		t.Fatal("no call was counted")
	}
	for range 20 {
		i.explain(t, "GET", "/v1/servers")
		i.explain(t, "GET", "/v1/servers/"+servicestest.TeamID)
		i.explain(t, "POST", "/v1/incidents")
		i.explain(t, "GET", "/v1/me", "token_id", "tok-1")
		i.get(t, i.AdminAddress(), "/admin/limits/tok-1")
		i.get(t, i.AdminAddress(), "/admin/config")
	}
	after := getJSON[admin.TokenLimits](t, i, target)
	for j := range after.Limits {
		if *after.Limits[j].Remaining != *before.Limits[j].Remaining {
			t.Errorf("limit %s: %d remaining, before %d", after.Limits[j].Name, *after.Limits[j].Remaining, *before.Limits[j].Remaining)
		}
	}
	if again := i.calls(t); again != calls {
		t.Errorf("%d calls, before %d", again, calls)
	}
	i.mustGet(t, "/v1/servers", 200) // the second request
}
