package wiring_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/admintest"
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
	for _, want := range []admin.Value{
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

func TestAdminRefusesATokenInsteadOfAnID(t *testing.T) {
	i := inspect(t, "")
	for _, target := range []string{"/admin/limits/" + i.token, "/admin/explain?method=GET&path=/&token_id=" + i.token} {
		if status, body := i.do(t, http.MethodGet, target); status != 400 || strings.Contains(body+i.log.String(), i.token) {
			t.Errorf("got %d %s", status, body)
		}
	}
}

func TestAdminPagesOverTLS(t *testing.T) {
	roots, users := admintest.NewAuthority(t), admintest.NewAuthority(t)
	own := roots.Server(t, 1)
	files := admintest.Write(t, own.Certificate, own.Key, users.PEM)
	i := inspect(t, fmt.Sprintf("admin: {tls: {cert_file: %s, key_file: %s, client_ca_file: %s}}\n", files[0], files[1], files[2]))
	pool := x509.NewCertPool()
	pool.AddCert(roots.Root)
	i.scheme, i.http.TLSClientConfig = "https://", &tls.Config{RootCAs: pool}
	for target, want := range map[string]int{"/livez": 200, "/admin/config": 403, "/metrics": 403} {
		if got, body := i.do(t, http.MethodGet, target); got != want {
			t.Errorf("%s: got %d %s", target, got, body)
		}
	}
	i.http.CloseIdleConnections()
	i.http = &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: pool, Certificates: users.Client(t, pkix.Name{CommonName: "ada"}, 2).TLS(t),
	}}
	if got, body := i.do(t, http.MethodDelete, "/admin/limits/tok-1"); got != 204 || !strings.Contains(i.log.String(), `"by":"CN=ada"`) {
		t.Errorf("got %d %s", got, body)
	}
}

func TestListenRefusesMismatchedTLSFiles(t *testing.T) {
	roots := admintest.NewAuthority(t)
	files := admintest.Write(t, roots.Server(t, 1).Certificate, roots.Server(t, 2).Key)
	c := settings("127.0.0.1:1")
	c.Admin.TLS = config.AdminTLS{CertFile: config.File(files[0]), KeyFile: config.File(files[1])}
	if _, err := listen(t, c); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}
