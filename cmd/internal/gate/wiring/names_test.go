package wiring_test

import (
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
)

func TestOperatorsReadNamesBesideIDs(t *testing.T) {
	i := start(t, "")
	i.readiness(t, "ready")
	i.services.Names = [2]string{"CI \u202e" + strings.Repeat("n", 100), "Harbour\x1b[2J"}
	const team = `Harbour\x1b[2J`
	token := `CI \u202e` + strings.Repeat("n", 91)
	i.get(t, i.Address(), "/v1/servers")

	identity := admin.TokenIdentity{TokenID: servicestest.TokenID, TeamID: servicestest.TeamID, TokenName: token, TeamName: team}
	if got := getJSON[admin.Busy](t, i, "/admin/limits"); len(got.Tokens) != 1 || got.Tokens[0].TokenName != token || got.Tokens[0].TeamName != team {
		t.Errorf("busiest: %+v", got)
	}
	for from, got := range map[string]admin.Token{
		"limits":  getJSON[admin.TokenLimits](t, i, "/admin/limits/"+servicestest.TokenID).Token,
		"explain": i.explain(t, "GET", "/v1/servers").Token,
	} {
		if got.TokenName != token || got.TeamName != team {
			t.Errorf("%s: %+v", from, got)
		}
	}
	for text, found := range map[string]bool{
		"ci": true, "HARBOUR": true, servicestest.TokenID[:8]: true, servicestest.TeamID: true, "lighthouse": false, servicestest.TokenID[9:]: false,
	} {
		got := getJSON[admin.FoundTokens](t, i, "/admin/tokens?q="+text)
		if len(got.Tokens) != got.Total || found != (got.Total == 1 && got.Tokens[0] == identity) {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if metrics := i.get(t, i.AdminAddress(), "/metrics").body; strings.Contains(metrics, "Harbour") || strings.Contains(metrics, "nnn") {
		t.Error("a metric has a name")
	}
}
