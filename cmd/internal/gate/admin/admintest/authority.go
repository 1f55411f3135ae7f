// Package admintest creates certificates for tests of listeners.
package admintest

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
)

// Authority signs certificates that are valid for one hour.
type Authority struct {
	Root *x509.Certificate
	PEM  []byte // of Root

	key *ecdsa.PrivateKey
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

// NewAuthority returns an Authority with a new root.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := sign(t, template, template, a.key, a.key)
	var err error
	if a.Root, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// Server signs a certificate for a listener at 127.0.0.1.
func (a *Authority) Server(t testing.TB, serial int64) Pair {
	t.Helper()
	return a.Expiring(t, serial, time.Now().Add(time.Hour))
}

// Expiring signs a server certificate that expires at end.
func (a *Authority) Expiring(t testing.TB, serial int64, end time.Time) Pair {
	t.Helper()
	return a.pair(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client signs a client certificate.
func (a *Authority) Client(t testing.TB, subject pkix.Name, serial int64) Pair {
	t.Helper()
	return a.pair(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: subject, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) pair(t testing.TB, template *x509.Certificate) Pair {
	t.Helper()
	key := newKey(t)
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sign(t, template, a.Root, key, a.key)}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
	}
}

// TLS returns the pair for a tls.Config.
func (p Pair) TLS(t testing.TB) []tls.Certificate {
	t.Helper()
	certificate, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return []tls.Certificate{certificate}
}

// Write writes each content to a file in a new directory and returns the paths in order.
func Write(t testing.TB, contents ...[]byte) []string {
	t.Helper()
	dir, paths := t.TempDir(), make([]string, len(contents))
	for i, content := range contents {
		paths[i] = filepath.Join(dir, string(rune('a'+i))+".pem")
		if err := os.WriteFile(paths[i], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
