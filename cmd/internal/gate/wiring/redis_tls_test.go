package wiring_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/backendclient/tlsfiles/tlsfilestest"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/ratelimit/redisstore/redistest"
)

// Both sides get certificates of another authority. The first files of the gateway are incomplete.
func TestRedisCertificatesAreReloadedWithoutARestart(t *testing.T) {
	const unused = "the current TLS files are not used"
	first, second := tlsfilestest.NewAuthority(t, "first"), tlsfilestest.NewAuthority(t, "second")
	ours, theirs := t.TempDir(), t.TempDir()
	files, its := first.Write(t, ours, "gateway"), first.Write(t, theirs, "redis")
	port := strconv.Itoa(testkit.FreePort(t))
	server := redistest.Start(t, "--tls-port", port, "--tls-ca-cert-file", its.CAFile, "--tls-cert-file", its.CertFile, "--tls-key-file", its.KeyFile)
	r := start(t, fmt.Sprintf("rate_limit:\n  store: redis\n  redis:\n    addresses: [\"127.0.0.1:%s\"]\n"+
		"    timeout: 5s\n    tls: {enabled: true, ca_file: %s, cert_file: %s, key_file: %s}\n",
		port, files.CAFile, files.CertFile, files.KeyFile))
	decides := func() { // a restarted server has no account of the token
		t.Helper()
		testkit.Eventually(t, "Redis decides", func() bool {
			got := r.get(t, r.Address(), "/v1/servers")
			n, err := server.Client().Exists(t.Context(), "opsgate:account:3:"+servicestest.TokenID).Result()
			return got.status == 200 && r.redis(t).State == "ready" && n == 1 && err == nil
		})
	}
	decides()

	testkit.Must(t, os.WriteFile(files.KeyFile, []byte("half of"), 0o600))
	for range 2 {
		server.Restart()
		decides()
	}
	logged := r.lines(unused)
	if len(logged) != 1 || logged[0]["service"] != "redis" || !strings.Contains(logged[0]["error"].(string), files.KeyFile) {
		t.Errorf("got %v", logged)
	}

	second.Write(t, ours, "gateway")
	second.Write(t, theirs, "redis")
	server.Restart()
	decides()
	if len(r.lines("the current TLS files are in use")) == 0 {
		t.Error("no line reports the changed files")
	}
}
