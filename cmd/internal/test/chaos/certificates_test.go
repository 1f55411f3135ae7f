package chaos

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"testing"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// publicTLS is the certificate of public listeners, in files that tests replace.
type publicTLS struct {
	authority *certstest.Authority
	cert, key string
}

func newPublicTLS(t testing.TB) *publicTLS {
	t.Helper()
	p := &publicTLS{authority: certstest.NewAuthority(t, "root")}
	pair := p.authority.Server(t, 1)
	files := certstest.Write(t, pair.Certificate, pair.Key)
	p.cert, p.key = files[0], files[1]
	return p
}

func (p *publicTLS) config() string {
	return fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", p.cert, p.key)
}

func (p *publicTLS) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(p.authority.Root)
	return roots
}

// client returns the configuration of its clients.
func (p *publicTLS) client() *tls.Config {
	return &tls.Config{RootCAs: p.roots(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// replace replaces the certificate, one file after the other.
func (p *publicTLS) replace(t *testing.T, serial int64) {
	t.Helper()
	pair := p.authority.Server(t, serial)
	put(t, p.cert, pair.Certificate)
	put(t, p.key, pair.Key)
}

func put(t *testing.T, file string, content []byte) {
	t.Helper()
	testkit.Must(t, os.WriteFile(file+".next", content, 0o600))
	testkit.Must(t, os.Rename(file+".next", file))
}
