package chaos

import (
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"testing"

	"opsgate/cmd/internal/gate/admin/admintest"
)

// The reference backend with TLS: a gateway with a client certificate works, one without is not ready, and replaced files are used for the
// connections of the next gateway.
func TestBackendRequiresCertificatesOfGateways(t *testing.T) {
	own := newPublicTLS(t)
	files := admintest.Write(t, own.authority.PEM, nil, nil)
	roots, cert, key := files[0], files[1], files[2]
	b := start(t, "opsbackend", "serve", "--listen=127.0.0.1:0", "--data-dir="+t.TempDir(), "--seed=demo",
		"--tls-cert="+own.cert, "--tls-key="+own.key, "--tls-client-ca="+roots)
	serving, err := b.Record("serving")
	must(t, err)
	services := everyService(fmt.Sprint(serving["address"]))
	client, token := newClient(t, nil), tokens(t)["full"].Text
	for serial := range int64(2) {
		own.replace(t, serial)
		putPair(t, own.authority.Client(t, pkix.Name{CommonName: "gateway"}, serial), cert, key)
		setUpstreamTLS(t, map[string]string{"ENABLED": "true", "CA_FILE": roots, "CERT_FILE": cert, "KEY_FILE": key})
		g := startGateway(t, services, unlimited)
		if status := me(t.Context(), client, g.url, token).status; status != http.StatusOK {
			t.Errorf("with certificate %d: status %d", serial, status)
		}
	}
	if _, err := b.Record("changed TLS files are in use"); err != nil {
		t.Error(err)
	}
	setUpstreamTLS(t, map[string]string{"CERT_FILE": "", "KEY_FILE": ""})
	g := launchGateway(t, services, unlimited)
	g.waitUntilServing(t)
	if status := me(t.Context(), client, g.url, token).status; status != http.StatusServiceUnavailable {
		t.Errorf("without a certificate: status %d", status)
	}
}

// setUpstreamTLS sets keys of the TLS of every service, for gateways that start from then on.
func setUpstreamTLS(t *testing.T, values map[string]string) {
	t.Helper()
	for _, service := range []string{"FLEET", "MONITORING", "INCIDENT", "AUDIT", "IDENTITY"} {
		for key, value := range values {
			t.Setenv("OPSGATE_UPSTREAMS_"+service+"_TLS_"+key, value)
		}
	}
}
