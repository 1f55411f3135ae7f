package admin_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/logging/loggingtest"
)

// An authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign returns a certificate of the subject and its key, in PEM.
func (a *authority) sign(t *testing.T, subject pkix.Name, serial int64, use x509.ExtKeyUsage) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: subject, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func (a *authority) client(t *testing.T, subject pkix.Name) []tls.Certificate {
	t.Helper()
	certificate, err := tls.X509KeyPair(a.sign(t, subject, 77, x509.ExtKeyUsageClientAuth))
	if err != nil {
		t.Fatal(err)
	}
	return []tls.Certificate{certificate}
}

// put writes files that are newer than those before.
func put(t *testing.T, age time.Duration, content map[string][]byte) {
	t.Helper()
	for path, text := range content {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
}

// A secure is an admin listener with TLS.
type secure struct {
	*httptest.Server

	files admin.TLSFiles
	log   *loggingtest.Buffer
	roots *authority // of its own certificate
	users *authority // of its operators'
}

func serveTLS(t *testing.T, askForCertificates bool) *secure {
	t.Helper()
	dir := t.TempDir()
	s := &secure{
		files: admin.TLSFiles{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")},
		log:   new(loggingtest.Buffer), roots: newAuthority(t), users: newAuthority(t),
	}
	certificate, key := s.roots.sign(t, pkix.Name{CommonName: "gate"}, 1, x509.ExtKeyUsageServerAuth)
	put(t, time.Hour, map[string][]byte{s.files.Certificate: certificate, s.files.Key: key})
	if askForCertificates {
		s.files.ClientCA = filepath.Join(dir, "ca.crt")
		put(t, time.Hour, map[string][]byte{s.files.ClientCA: s.users.pem})
	}
	logger := slog.New(slog.NewJSONHandler(s.log, nil))
	settings, err := admin.NewTLS(s.files, logger)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewUnstartedServer(open(new(gatewayOf), admin.Access{ClientCertificates: askForCertificates, Listen: "127.0.0.1:0"}, s.log))
	s.TLS = settings
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// ask makes a request on a connection of its own, and returns the status and the serial number of the listener's certificate.
func (s *secure) ask(t *testing.T, method, path string, certificates []tls.Certificate) (status int, serial int64, err error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.roots.certificate)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}, DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	got, err := transport.RoundTrip(request)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = got.Body.Close() }()
	_, _ = io.Copy(io.Discard, got.Body)
	return got.StatusCode, got.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestOperatorsShowACertificate(t *testing.T) {
	s := serveTLS(t, true)
	ada := pkix.Name{CommonName: "ada", Organization: []string{"ops"}}
	for _, test := range []struct {
		name, path   string
		certificates []tls.Certificate
		want         int // 0 for no connection
	}{
		{"a probe has none", "/readyz", nil, 503},
		{"a page needs one", "/admin/config", nil, 403},
		{"one of ours", "/admin/config", s.users.client(t, ada), 200},
		{"one of somebody else's", "/readyz", newAuthority(t).client(t, ada), 0},
		{"one of the listener's own authority", "/admin/config", s.roots.client(t, ada), 0},
	} {
		got, _, err := s.ask(t, "GET", test.path, test.certificates)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("%s: got %d, %v", test.name, got, err)
		}
	}
	for subject, by := range map[string]string{"ada": "CN=ada,O=ops", "": "serial 77"} {
		name := pkix.Name{}
		if subject != "" {
			name = ada
		}
		if got, _, err := s.ask(t, "DELETE", "/admin/limits/tok-1", s.users.client(t, name)); got != 204 {
			t.Errorf("%s: got %d, %v", by, got, err)
		}
		if want := fmt.Sprintf(`"by":%q`, by); !strings.Contains(s.log.String(), want) {
			t.Errorf("no %s in %s", want, s.log)
		}
	}
}

func TestChangedFilesHoldForTheNextConnection(t *testing.T) {
	s := serveTLS(t, true)
	ada := s.users.client(t, pkix.Name{CommonName: "ada"})
	seen := func(wantStatus int, wantSerial int64) {
		t.Helper()
		if status, serial, err := s.ask(t, "GET", "/admin/config", ada); status != wantStatus || serial != wantSerial {
			t.Errorf("got %d by certificate %d, %v; want %d by %d", status, serial, err, wantStatus, wantSerial)
		}
	}
	seen(200, 1)
	certificate, key := s.roots.sign(t, pkix.Name{CommonName: "gate"}, 2, x509.ExtKeyUsageServerAuth)
	put(t, 50*time.Minute, map[string][]byte{s.files.Certificate: certificate}) // the key is on its way
	seen(200, 1)
	if !strings.Contains(s.log.String(), "changed TLS files of the admin listener are not used") {
		t.Errorf("no line says so: %s", s.log)
	}
	put(t, 40*time.Minute, map[string][]byte{s.files.Key: key})
	seen(200, 2)
	put(t, 30*time.Minute, map[string][]byte{s.files.ClientCA: newAuthority(t).pem})
	seen(0, 0)
	put(t, 20*time.Minute, map[string][]byte{s.files.ClientCA: s.users.pem})
	seen(200, 2)
	if err := os.Remove(s.files.Certificate); err != nil {
		t.Fatal(err)
	}
	seen(200, 2)
}

func TestFilesThatMakeNoTLSAreRefused(t *testing.T) {
	a := newAuthority(t)
	certificate, key := a.sign(t, pkix.Name{CommonName: "gate"}, 1, x509.ExtKeyUsageServerAuth)
	_, otherKey := a.sign(t, pkix.Name{CommonName: "gate"}, 1, x509.ExtKeyUsageServerAuth)
	for _, test := range []struct {
		name                 string
		certificate, key, ca []byte
		want                 string
	}{
		{"a key of another", certificate, otherKey, a.pem, "certificate"},
		{"no certificate", nil, key, a.pem, "certificate"},
		{"no roots", certificate, key, []byte("nothing"), "there is none in the file"},
		{"no file of roots", certificate, key, nil, "no such file"},
	} {
		dir := t.TempDir()
		files := admin.TLSFiles{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), ClientCA: filepath.Join(dir, "ca.crt")}
		for path, content := range map[string][]byte{files.Certificate: test.certificate, files.Key: test.key, files.ClientCA: test.ca} {
			if content != nil {
				put(t, 0, map[string][]byte{path: content})
			}
		}
		_, err := admin.NewTLS(files, slog.New(slog.NewTextHandler(new(bytes.Buffer), nil)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}
