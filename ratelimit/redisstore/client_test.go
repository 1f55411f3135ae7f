package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

func TestWhatStandsAtTheAddresses(t *testing.T) {
	one, many := []string{"127.0.0.1:1"}, []string{"127.0.0.1:1", "127.0.0.1:2"}
	for name, c := range map[string]struct {
		o    redisstore.ClientOptions
		want string // of the client's type, or of the error
	}{
		"none":                  {redisstore.ClientOptions{}, "no addresses"},
		"one":                   {redisstore.ClientOptions{Addresses: one}, "single"},
		"one of a cluster":      {redisstore.ClientOptions{Addresses: one, Mode: redisstore.Cluster}, "cluster"},
		"many":                  {redisstore.ClientOptions{Addresses: many, Mode: redisstore.Auto}, "cluster"},
		"many single":           {redisstore.ClientOptions{Addresses: many, Mode: redisstore.Single}, "2 addresses"},
		"a master":              {redisstore.ClientOptions{Addresses: many, MasterName: "main"}, "single"},
		"sentinels alone":       {redisstore.ClientOptions{Addresses: one, Mode: redisstore.Sentinel}, "by its name"},
		"a cluster's database":  {redisstore.ClientOptions{Addresses: many, Database: 1}, "no database 1"},
		"something else":        {redisstore.ClientOptions{Addresses: one, Mode: "ring"}, `mode "ring"`},
		"a server's database 1": {redisstore.ClientOptions{Addresses: one, Database: 1}, "single"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := redisstore.NewClient(c.o)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %s", err, c.want)
				}
				return
			}
			defer func() { _ = client.Close() }()
			got := "single"
			if _, is := client.(*redis.ClusterClient); is {
				got = "cluster"
			}
			if got != c.want {
				t.Errorf("a %s, want %s", got, c.want)
			}
		})
	}
}

func TestATLSServerWithAPassword(t *testing.T) {
	dir := t.TempDir()
	roots := certificate(t, dir)
	port := strconv.Itoa(redistest.FreePort(t))
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-auth-clients", "no", "--user", "gate", "on", ">secret", "~opsgate:*", "&opsgate:*", "+@all")
	o := redisstore.ClientOptions{
		Addresses: []string{net.JoinHostPort("127.0.0.1", port)}, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		Username: "gate", Password: "secret",
	}
	s := running(t, redisstore.Options{Client: newClient(t, o)})
	d := decide(t, s, "t", specified(t))
	if err := s.Refund(t.Context(), "t", specified(t), d); err != nil || !d.Allowed {
		t.Errorf("%+v, error %v", d, err)
	}
	joined(t, s, hourly(t, 1))
	o.Password = "guess"
	if d, err := newStore(t, redisstore.Options{Client: newClient(t, o)}).Decide(t.Context(), "t", specified(t)); err == nil || strings.Contains(err.Error(), "guess") {
		t.Errorf("a wrong password: %+v, error %v", d, err)
	}
}

// certificate writes one for the loopback address, and its key, and returns what trusts it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{
		"cert.pem": certPEM,
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return roots
}

func TestAMasterBehindASentinel(t *testing.T) {
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, "main", master)
	s := running(t, redisstore.Options{Client: newClient(t, redisstore.ClientOptions{Addresses: []string{sentinel.Addr()}, MasterName: "main"})})
	if d := decide(t, s, "t", specified(t)); !d.Allowed {
		t.Errorf("%+v", d)
	}
	joined(t, s, hourly(t, 1))
}
