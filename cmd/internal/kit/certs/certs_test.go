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
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/backendclient/tlsfiles/tlsfilestest"
	"opsgate/cmd/internal/kit/certs"
)

// put writes a file with a modification time in the past.
func put(t *testing.T, path string, content []byte, age time.Duration) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, content, 0o600))
	when := time.Now().Add(-age)
	testkit.Must(t, os.Chtimes(path, when, when))
}

// A listener with TLS that sends one byte on each connection.
type listener struct {
	net.Listener

	files certs.Files
	log   *testkit.Buffer
	roots *tlsfilestest.Authority // issues its certificate
	users *tlsfilestest.Authority // issues the certificates of its clients
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := &listener{
		log: new(testkit.Buffer), roots: tlsfilestest.NewAuthority(t, "root"), users: tlsfilestest.NewAuthority(t, "root"),
	}
	own := l.roots.Server(t, 1)
	paths := tlsfilestest.Write(t, own.Certificate, own.Key, l.users.PEM)
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

// serve sends one byte on each connection. A client that reads it knows that its certificate is accepted.
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
	put(t, l.files.Certificate, renewed.Certificate, 50*time.Minute) // the key is not renewed yet
	l.mustShow(t, 1, ada...)
	l.mustShow(t, 1, ada...)
	if n := strings.Count(l.log.String(), "the current TLS files are not used"); n != 1 {
		t.Errorf("logged %d times: %s", n, l.log)
	}
	put(t, l.files.Key, renewed.Key, 40*time.Minute)
	l.mustShow(t, 2, ada...)
	put(t, l.files.ClientCA, tlsfilestest.NewAuthority(t, "root").PEM, 30*time.Minute)
	l.mustShow(t, 0, ada...)
	l.mustShow(t, 2) // a client without a certificate still connects
	put(t, l.files.ClientCA, l.users.PEM, 20*time.Minute)
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

// Tools that renew certificates replace files. The new file may have the size and the modification time of the old one.
func TestAReplacedFileOfTheSameSizeAndTimeIsRead(t *testing.T) {
	l := listen(t)
	when := time.Now().Add(-time.Hour)
	for serial := range int64(3) {
		renewed := l.roots.Server(t, serial+2)
		for path, content := range map[string][]byte{l.files.Certificate: renewed.Certificate, l.files.Key: renewed.Key} {
			put(t, path+".next", content, time.Hour)
			testkit.Must(t, os.Chtimes(path+".next", when, when))
			testkit.Must(t, os.Rename(path+".next", path))
		}
		l.mustShow(t, serial+2)
	}
}

// A tool may write the key with mode 0600 and change its permissions later, which changes neither size nor time.
func TestFilesThatCouldNotBeReadAreReadAgain(t *testing.T) {
	l := listen(t)
	renewed := l.roots.Server(t, 2)
	modified := time.Now().Add(-30 * time.Minute)
	invalid := append([]byte("x"), renewed.Key[1:]...)
	put(t, l.files.Certificate, renewed.Certificate, 40*time.Minute)
	for _, step := range []struct {
		key  []byte
		want int64
	}{{invalid, 1}, {renewed.Key, 2}} {
		put(t, l.files.Key, step.key, 0)
		testkit.Must(t, os.Chtimes(l.files.Key, modified, modified))
		l.mustShow(t, step.want)
	}
	if n := strings.Count(l.log.String(), "the current TLS files are not used"); n != 1 {
		t.Errorf("logged %d times: %s", n, l.log)
	}
}

func TestInvalidFilesAreRefused(t *testing.T) {
	a := tlsfilestest.NewAuthority(t, "root")
	own, other := a.Server(t, 1), a.Server(t, 2)
	for _, test := range []struct {
		name                 string
		certificate, key, ca []byte
		want                 string
	}{
		{"a key of another certificate", own.Certificate, other.Key, a.PEM, "TLS of the admin listener: read the certificate"},
		{"no certificate", nil, own.Key, a.PEM, "TLS of the admin listener: read the certificate"},
		{"no roots", own.Certificate, own.Key, []byte("nothing"), "there is none in"},
	} {
		paths := tlsfilestest.Write(t, test.certificate, test.key, test.ca)
		_, err := certs.New(certs.Options{
			Listener: "admin", Files: certs.Files{Certificate: paths[0], Key: paths[1], ClientCA: paths[2]},
		})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
	paths := tlsfilestest.Write(t, own.Certificate, own.Key)
	_, err := certs.New(certs.Options{
		Listener: "admin", Files: certs.Files{Certificate: paths[0], Key: paths[1], ClientCA: paths[0] + "x"},
	})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file of roots: got %v", err)
	}
}
