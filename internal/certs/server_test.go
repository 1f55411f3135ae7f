package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"opsgate/internal/certs"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// A listener with TLS that sends one byte on each connection.
type listener struct {
	net.Listener

	files certs.Files
	log   *testkit.Buffer
	roots *certstest.Authority // issues its certificate
	users *certstest.Authority // issues the certificates of its clients
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := &listener{
		log: new(testkit.Buffer), roots: certstest.NewAuthority(t, "root"), users: certstest.NewAuthority(t, "root"),
	}
	own := l.roots.Server(t, 1)
	paths := certstest.Write(t, own.Certificate, own.Key, l.users.PEM)
	l.files = certs.Files{Certificate: paths[0], Key: paths[1], ClientCA: paths[2]}
	config, err := certs.New(certs.Options{
		Listener: "public", Files: l.files, Protocols: []string{"h2", "http/1.1"},
		Logger: slog.New(slog.NewJSONHandler(l.log, nil)),
	})
	testkit.Must(t, err)
	l.Listener, err = tls.Listen("tcp", "127.0.0.1:0", config)
	testkit.Must(t, err)
	ended := make(chan struct{})
	go l.serve(ended)
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l
}

// serve sends one byte on each connection. A client that reads it knows that its certificate is
// accepted.
func (l *listener) serve(ended chan<- struct{}) {
	defer close(ended)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("x"))
		_ = conn.Close()
	}
}

// serial returns the serial number of the certificate on a new connection.
func (l *listener) serial(t *testing.T, own ...tls.Certificate) (int64, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(l.roots.Root)
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: roots, Certificates: own, NextProtos: []string{"h2"}})
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return 0, err
	}
	if got := conn.ConnectionState(); got.NegotiatedProtocol != "h2" {
		t.Errorf("negotiated %q", got.NegotiatedProtocol)
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func (l *listener) mustShow(t *testing.T, want int64, own ...tls.Certificate) {
	t.Helper()
	if got, err := l.serial(t, own...); got != want || (err == nil) != (want != 0) {
		t.Errorf("got certificate %d, %v; want %d", got, err, want)
	}
}

func TestChangedFilesApplyToTheNextHandshake(t *testing.T) {
	l := listen(t)
	ada := l.users.Client(t, pkix.Name{CommonName: "ada"}, 7).TLS(t)
	l.mustShow(t, 1, ada...)
	renewed := l.roots.Server(t, 2)
	testkit.Must(t, os.WriteFile(l.files.Certificate, renewed.Certificate, 0o600)) // the key is not renewed yet
	l.mustShow(t, 1, ada...)
	l.mustShow(t, 1, ada...)
	if n := strings.Count(l.log.String(), "the current TLS files are not used"); n != 1 {
		t.Errorf("logged %d times: %s", n, l.log)
	}
	testkit.Must(t, os.WriteFile(l.files.Key, renewed.Key, 0o600))
	l.mustShow(t, 2, ada...)
	testkit.Must(t, os.WriteFile(l.files.ClientCA, certstest.NewAuthority(t, "root").PEM, 0o600))
	l.mustShow(t, 0, ada...)
	l.mustShow(t, 2) // a client without a certificate still connects
	testkit.Must(t, os.WriteFile(l.files.ClientCA, l.users.PEM, 0o600))
	l.mustShow(t, 2, ada...)
	testkit.Must(t, os.Remove(l.files.Certificate))
	l.mustShow(t, 2, ada...)
}

// CBC suites are open to padding attacks. Current clients offer other suites too.
func TestAClientThatOffersOnlyCBCSuitesIsRefused(t *testing.T) {
	l := listen(t)
	roots := x509.NewCertPool()
	roots.AddCert(l.roots.Root)
	var cbc, others []uint16
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if strings.Contains(suite.Name, "_CBC_") {
			cbc = append(cbc, suite.ID)
		} else if strings.HasPrefix(suite.Name, "TLS_ECDHE_ECDSA_") && !strings.Contains(suite.Name, "RC4") {
			others = append(others, suite.ID)
		}
	}
	for _, offer := range []struct {
		suites []uint16
		taken  bool
	}{{cbc, false}, {others, true}, {append(cbc, others[0]), true}} {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS12, CipherSuites: offer.suites})
		if (err == nil) != offer.taken {
			t.Errorf("suites %x: %v", offer.suites, err)
		}
		if err != nil {
			continue
		}
		if used := tls.CipherSuiteName(conn.ConnectionState().CipherSuite); strings.Contains(used, "CBC") {
			t.Errorf("%x: %s is used", offer.suites, used)
		}
		_ = conn.Close()
	}
}

func TestInvalidFilesOfAListenerAreRefused(t *testing.T) {
	a := certstest.NewAuthority(t, "root")
	own, other := a.Server(t, 1), a.Server(t, 2)
	for want, contents := range map[string][][]byte{
		"TLS of the admin listener: read the certificate in ":         {own.Certificate, other.Key, a.PEM},
		"TLS of the admin listener: read the roots: there is none in": {own.Certificate, own.Key, []byte("nothing")},
	} {
		paths := certstest.Write(t, contents...)
		_, err := certs.New(certs.Options{
			Listener: "admin", Files: certs.Files{Certificate: paths[0], Key: paths[1], ClientCA: paths[2]},
			Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
