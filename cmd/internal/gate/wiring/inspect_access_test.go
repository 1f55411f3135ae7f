package wiring_test

import (
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
)

const operatorsToken = "a token of operators"

func TestAdminConfigShowsTheActiveConfiguration(t *testing.T) {
	i := start(t, `admin: {token: "${ADMIN}"}`+"\n"+overrides, "ADMIN="+operatorsToken, "OPSGATE_LOG_LEVEL=warn")
	if got := i.get(t, i.AdminAddress(), "/admin/config"); got.status != 401 {
		t.Errorf("with the token of a client: got %+v", got)
	}
	i.token = operatorsToken
	if got := i.get(t, i.AdminAddress(), "/admin/config"); strings.Contains(got.body, operatorsToken) {
		t.Errorf("the secret is in %s", got.body)
	}
	c := getJSON[admin.Configuration](t, i, "/admin/config")
	if c.File != i.file || len(c.Version) != 12 || c.Since.IsZero() || c.LastReload != nil {
		t.Errorf("got %+v", c)
	}
	for _, want := range []config.Value{
		{Key: "listen", Value: "127.0.0.1:0", Origin: i.file + ":1"},
		{Key: "admin.listen", Value: "127.0.0.1:0", Origin: "--admin-listen"},
		{Key: "admin.token", Value: "(hidden)", Origin: i.file + ":9"},
		{Key: "log.level", Value: "warn", Origin: "OPSGATE_LOG_LEVEL"},
		{Key: "log.format", Value: "json", Origin: "default"},
		{Key: "rate_limit.classes.partner.limits[0].requests", Value: "50", Origin: i.file + ":15"},
	} {
		if !slices.Contains(c.Values, want) {
			t.Errorf("there is no %+v in %+v", want, c.Values)
		}
	}
}
