package wiring_test

import (
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/gateway"
)

func TestRevokedTokenIsLoggedAndExplained(t *testing.T) {
	i := start(t, overrides)
	i.services.Revoked.Store(true)
	if x := i.explain(t, "GET", "/v1/servers"); x.Token.Cached || outcomes(x)["token"] != gateway.Unknown {
		t.Errorf("before any request: %+v", x)
	}
	got := i.get(t, i.Address(), "/v1/servers")
	if got.status != 401 || strings.Contains(got.body, "revoked") || strings.Contains(got.body, servicestest.TokenID) {
		t.Errorf("got %+v", got)
	}
	if line := i.log.String(); !strings.Contains(line, `"cause":"token:revoked"`) || !strings.Contains(line, `"token_id":"`+servicestest.TokenID+`"`) {
		t.Errorf("the log has %s", line)
	}
	x := i.explain(t, "GET", "/v1/servers", "team_id", servicestest.TeamID)
	if a := x.Answer; a.Status != 401 || a.Code != "unauthorized" || a.Cause != "token:revoked" || a.FailedCheck != "token" || !strings.Contains(got.body, a.Text) {
		t.Errorf("explained is %+v, answered %+v", a, got)
	}
	if k := x.Token; !k.Cached || k.Freshness != "revoked" || k.TeamID != servicestest.TeamID || k.AIPlan != nil || k.Scopes != nil {
		t.Errorf("token %+v", k)
	}
	for _, c := range x.Checks {
		if c.Name == "token" && (c.Outcome != gateway.Refuses || c.Detail != "the token was revoked") {
			t.Errorf("check %+v", c)
		}
	}
	if state := getJSON[admin.TokenLimits](t, i, "/admin/limits/"+servicestest.TokenID); state.Token.Freshness != "revoked" || state.Policy.Class != "token" {
		t.Errorf("limits %+v", state)
	}
}
