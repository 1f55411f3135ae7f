package wiring_test

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// A renewal is a gateway whose connections all have TLS, with one certificate: to clients, to
// services and to Redis.
type renewal struct {
	*running

	services *servicestest.Services
	stop     func() // stops the services
	redis    *redistest.Server
}

func startRenewal(t *testing.T, authority *certstest.Authority, ours, theirs string) *renewal {
	t.Helper()
	files, its := authority.Write(t, ours, "gateway"), authority.Write(t, theirs, "redis")
	port := strconv.Itoa(testkit.FreePort(t))
	r := &renewal{services: servicestest.Start(t), stop: func() {}, redis: redistest.Start(t, "--tls-port", port,
		"--tls-ca-cert-file", its.CAFile, "--tls-cert-file", its.CertFile, "--tls-key-file", its.KeyFile)}
	r.services.Address = testkit.FreeAddress(t)
	r.restart(t, authority)
	var variables []string
	for _, service := range []string{"FLEET", "MONITORING", "INCIDENT", "AUDIT", "IDENTITY"} {
		for key, value := range map[string]string{"ENABLED": "true", "CA_FILE": files.CAFile, "CERT_FILE": files.CertFile, "KEY_FILE": files.KeyFile} {
			variables = append(variables, "OPSGATE_UPSTREAMS_"+service+"_TLS_"+key+"="+value)
		}
	}
	r.running = startWith(t, r.services, fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\nrate_limit:\n  store: redis\n  redis:\n"+
		"    addresses: [\"127.0.0.1:%s\"]\n    timeout: 5s\n    tls: {enabled: true, ca_file: %s, cert_file: %s, key_file: %s}\n",
		files.CertFile, files.KeyFile, port, files.CAFile, files.CertFile, files.KeyFile), variables...)
	return r
}

// restart ends all connections of services and Redis, which then have certificates of the
// authority, as Redis has in its files.
func (r *renewal) restart(t *testing.T, authority *certstest.Authority) {
	t.Helper()
	r.stop()
	config := authority.Config(t, "services")
	config.NextProtos = []string{"h2"}
	listener, err := tls.Listen("tcp", r.services.Address, config)
	testkit.Must(t, err)
	r.stop = r.services.Serve(t, listener)
	r.redis.Restart()
}

// awaitSuccess waits until a request on a new connection succeeds, with a service and Redis.
func (r *renewal) awaitSuccess(t *testing.T, authority *certstest.Authority) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(authority.Root)
	client, fresh := secure{running: r.running}, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	testkit.Eventually(t, "the service answers and Redis decides", func() bool {
		got, _, err := client.do(fresh, "GET", "/v1/servers", nil)
		// A restarted server has no account of the token.
		n, failed := r.redis.Client().Exists(t.Context(), "opsgate:account:3:"+servicestest.TokenID).Result()
		return err == nil && got.StatusCode == 200 && r.running.redis(t).State == "ready" && n == 1 && failed == nil
	})
}

// users returns the number of lines with a message by what they are about.
func (r *renewal) users(message string) map[any]int {
	n := map[any]int{}
	for _, line := range r.lines(message) {
		n[cmp.Or(line["service"], line["listener"])]++
	}
	return n
}

// Both sides of all connections get certificates of another authority, in use from the next
// connection on. The files of the gateway are incomplete in between.
func TestRenewedCertificatesAreUsedByAllConnections(t *testing.T) {
	first, second := certstest.NewAuthority(t, "first"), certstest.NewAuthority(t, "second")
	ours, theirs := t.TempDir(), t.TempDir()
	r := startRenewal(t, first, ours, theirs)
	r.awaitSuccess(t, first)

	testkit.Must(t, os.WriteFile(filepath.Join(ours, "key.pem"), []byte("half of"), 0o600))
	for range 2 {
		r.restart(t, first)
		r.awaitSuccess(t, first)
	}
	unused := r.users("the current TLS files are not used")

	second.Write(t, ours, "gateway")
	second.Write(t, theirs, "redis")
	r.restart(t, second)
	r.awaitSuccess(t, second)
	used := r.users("the current TLS files are in use")
	for _, user := range []any{"fleet", "identity", "redis", "public"} {
		if unused[user] != 1 || used[user] == 0 {
			t.Errorf("%s: %d lines that its files are not used, %d that they are: %v, %v", user, unused[user], used[user], unused, used)
		}
	}
}
