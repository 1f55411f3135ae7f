package wiring_test

import (
	"net/url"
	"regexp"
	"strconv"
	"testing"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
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
