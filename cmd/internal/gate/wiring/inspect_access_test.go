package wiring_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/tlsfiles/tlsfilestest"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
)

const operatorsToken = "a token of operators"

func TestAdminConfigShowsTheActiveConfiguration(t *testing.T) {
	i := inspect(t, `admin: {token: "${ADMIN}"}`+"\n"+overrides, "ADMIN="+operatorsToken, "OPSGATE_LOG_LEVEL=warn")
	if status, body := i.do(t, http.MethodGet, "/admin/config"); status != 401 {
		t.Errorf("without the token: got %d %s", status, body)
	}
	i.header.Set("Authorization", "Bearer "+operatorsToken)
	if _, body := i.do(t, http.MethodGet, "/admin/config"); strings.Contains(body, operatorsToken) {
		t.Errorf("the secret is in %s", body)
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

func TestListenRefusesMismatchedTLSFiles(t *testing.T) {
	roots := tlsfilestest.NewAuthority(t, "root")
	files := tlsfilestest.Write(t, roots.Server(t, 1).Certificate, roots.Server(t, 2).Key)
	c := settings("127.0.0.1:1")
	c.Admin.TLS = config.AdminTLS{CertFile: config.File(files[0]), KeyFile: config.File(files[1])}
	if _, err := listen(t, c); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}
