package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"opsgate/internal/certs"
	"opsgate/internal/testkit"
)

// An Authority issues certificates that are valid for an hour.
type Authority struct {
	Root *x509.Certificate
	PEM  []byte // of Root

	key *ecdsa.PrivateKey
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

// NewAuthority makes an Authority.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := new(Authority)
	a.Root, a.key = issue(t, caTemplate(name, time.Time{}, time.Time{}), nil)
	a.PEM = encode("CERTIFICATE", a.Root.Raw)
	return a
}

// Intermediate returns an Authority whose certificate a issues.
func (a *Authority) Intermediate(t testing.TB, name string, begins, ends time.Time) *Authority {
	t.Helper()
	i := new(Authority)
	i.Root, i.key = issue(t, caTemplate(name, begins, ends), a)
	i.PEM = encode("CERTIFICATE", i.Root.Raw)
	return i
}

// Cross issues another certificate for the key of an Authority, in PEM: its root, signed by a.
func (a *Authority) Cross(t testing.TB, other *Authority, begins, ends time.Time) []byte {
	t.Helper()
	template := caTemplate(other.Root.Subject.CommonName, begins, ends)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	der, err := x509.CreateCertificate(rand.Reader, template, a.Root, other.Root.PublicKey, a.key)
	testkit.Must(t, err)
	return encode("CERTIFICATE", der)
}

func caTemplate(name string, begins, ends time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: begins, NotAfter: ends,
	}
}

// issue issues a certificate, with defaults for its serial number and its end.
func issue(t testing.TB, template *x509.Certificate, by *Authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.Root, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	testkit.Must(t, err)
	certificate, err := x509.ParseCertificate(der)
	testkit.Must(t, err)
	return certificate, key
}

func (a *Authority) pair(t testing.TB, template *x509.Certificate) Pair {
	t.Helper()
	leaf, private := issue(t, template, a)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	testkit.Must(t, err)
	return Pair{encode("CERTIFICATE", leaf.Raw), encode("PRIVATE KEY", der)}
}

// Pair returns a certificate of a server or client with that name, at 127.0.0.1, and its key, in
// PEM.
func (a *Authority) Pair(t testing.TB, name string) (certificate, key []byte) {
	t.Helper()
	p := a.pair(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return p.Certificate, p.Key
}

// Server issues a certificate for a listener at 127.0.0.1, which cannot be used by a client.
func (a *Authority) Server(t testing.TB, serial int64) Pair {
	t.Helper()
	return a.Valid(t, serial, time.Time{}, time.Time{})
}

// Valid is Server with the times of the certificate, and the names that it is for beside 127.0.0.1.
func (a *Authority) Valid(t testing.TB, serial int64, begins, ends time.Time, names ...string) Pair {
	t.Helper()
	return a.pair(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: begins, NotAfter: ends, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client issues a certificate that only a client can use.
func (a *Authority) Client(t testing.TB, subject pkix.Name, serial int64) Pair {
	t.Helper()
	return a.pair(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// TLS returns the pair for a tls.Config.
func (p Pair) TLS(t testing.TB) []tls.Certificate {
	t.Helper()
	certificate, err := tls.X509KeyPair(p.Certificate, p.Key)
	testkit.Must(t, err)
	return []tls.Certificate{certificate}
}

// Config returns the configuration of a server or client with that name that trusts only the
// authority.
func (a *Authority) Config(t testing.TB, name string) *tls.Config {
	t.Helper()
	own, err := tls.X509KeyPair(a.Pair(t, name))
	testkit.Must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.Root)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own},
		RootCAs: roots, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// Write writes the files of a server or client with that name into a folder, and replaces existing
// files.
func (a *Authority) Write(t testing.TB, folder, name string) certs.ClientFiles {
	t.Helper()
	certificate, key := a.Pair(t, name)
	path := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		testkit.Must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	return certs.ClientFiles{CAFile: path("ca.pem", a.PEM), CertFile: path("cert.pem", certificate),
		KeyFile: path("key.pem", key)}
}

// Write writes each content to a file in a new directory, and returns the paths in order.
func Write(t testing.TB, contents ...[]byte) []string {
	t.Helper()
	dir, paths := t.TempDir(), make([]string, len(contents))
	for i, content := range contents {
		paths[i] = filepath.Join(dir, string(rune('a'+i))+".pem")
		testkit.Must(t, os.WriteFile(paths[i], content, 0o600))
	}
	return paths
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
