package edge_test

import (
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"opsgate/cmd/internal/admin/admintest"
	"opsgate/cmd/internal/config"
	"opsgate/ratelimit/redisstore/redistest"
)

// inRedis makes a configuration of one limit a minute, counted in Redis.
func inRedis(address string, requests int, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n  redis: {addresses: [%q], probe_interval: 10ms}\n"+
		"  limits: [{requests: %d, per: 1m}]\n%s", address, requests, more)
}

func TestGatewaysShareBudgetsInRedis(t *testing.T) {
	server := redistest.Start(t)
	services := startServices(t)
	first := reloadingGateway(t, services, inRedis(server.Addr(), 10, ""))
	second := reloadingGateway(t, services, inRedis(server.Addr(), 10, ""))
	for i, r := range []*reloading{first, second, first} {
		got := r.get(t, r.Address(), "/v1/servers")
		if want := fmt.Sprintf(`"minute";r=%d;`, 9-i); got.status != 200 || !strings.HasPrefix(got.header.Get("RateLimit"), want) {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
	first.finish(t)
	second.finish(t)
}

func TestRedisByTLS(t *testing.T) {
	authority := admintest.NewAuthority(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair := authority.Server(t, 2)
	roots, certificate, key := file("roots.pem", authority.PEM), file("redis.pem", pair.Certificate), file("redis.key", pair.Key)
	own := authority.Client(t, pkix.Name{CommonName: "gateway"}, 3)
	ownCertificate, ownKey := file("gateway.pem", own.Certificate), file("gateway.key", own.Key)
	port := strconv.Itoa(redistest.FreePort(t))
	server := redistest.Start(t, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", roots)
	address := "127.0.0.1:" + port
	services := startServices(t)
	r := reloadingGateway(t, services, fmt.Sprintf("rate_limit:\n  store: redis\n  redis:\n    addresses: [%q]\n"+
		"    tls: {enabled: true, ca_file: %s, cert_file: %s, key_file: %s}\n", address, roots, ownCertificate, ownKey))
	if got := r.get(t, r.Address(), "/v1/servers"); got.status != 200 {
		t.Errorf("got %+v\n%s", got, r.log.String())
	}
	if n, err := server.Client().DBSize(t.Context()).Result(); err != nil || n != 1 {
		t.Errorf("%d keys in Redis, %v", n, err)
	}
	r.finish(t)

	empty := file("empty.pem", nil)
	for name, tls := range map[string]config.RedisTLS{
		"no roots in the file": {CAFile: config.File(empty)},
		"no file of roots":     {CAFile: config.File(empty + "!")},
		"no key":               {CertFile: config.File(certificate), KeyFile: config.File(empty)},
	} {
		c := settings("127.0.0.1:1")
		c.RateLimit.Store, c.RateLimit.Redis.TLS = config.StoreRedis, tls
		c.RateLimit.Redis.TLS.Enabled = true
		if _, err := listen(t, c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
