package tlsfilestest

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

	"opsgate/backendclient/tlsfiles"
)

// An Authority issues certificates that are valid for an hour.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an Authority.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := new(Authority)
	a.certificate, a.key = issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	return a
}

func issue(t testing.TB, template *x509.Certificate, by *Authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// Pair returns a certificate of a server or client with that name, at 127.0.0.1, and its key, in PEM.
func (a *Authority) Pair(t testing.TB, name string) (certificate, key []byte) {
	t.Helper()
	leaf, private := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", leaf.Raw), encode("PRIVATE KEY", der)
}

// Config returns the configuration of a server or client with that name that trusts only the authority.
func (a *Authority) Config(t testing.TB, name string) *tls.Config {
	t.Helper()
	own, err := tls.X509KeyPair(a.Pair(t, name))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own},
		RootCAs: roots, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// Write writes the files of a server or client with that name into a folder, and replaces existing files.
func (a *Authority) Write(t testing.TB, folder, name string) tlsfiles.Files {
	t.Helper()
	certificate, key := a.Pair(t, name)
	path := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return tlsfiles.Files{
		CAFile: path("ca.pem", encode("CERTIFICATE", a.certificate.Raw)), CertFile: path("cert.pem", certificate), KeyFile: path("key.pem", key),
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
