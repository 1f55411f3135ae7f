package admin

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"opsgate/internal/certs"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// tlsServer is an admin listener with TLS.
type tlsServer struct {
	*httptest.Server

	log   *testkit.Buffer
	roots *certstest.Authority // signed the certificate of the listener
	users *certstest.Authority // signs client certificates
}

func serveTLS(t *testing.T) *tlsServer {
	t.Helper()
	s := &tlsServer{log: new(testkit.Buffer), roots: certstest.NewAuthority(t, "root"), users: certstest.NewAuthority(t, "root")}
	own := s.roots.Server(t, 1)
	paths := certstest.Write(t, own.Certificate, own.Key, s.users.PEM)
	files := certs.Files{Certificate: paths[0], Key: paths[1], ClientCA: paths[2]}
	settings, err := certs.New(certs.Options{Listener: "admin", Files: files, Logger: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	s.Server = httptest.NewUnstartedServer(options(t).withAccess(Access{ClientCertificates: true, Listen: "127.0.0.1:0"}, s.log))
	s.TLS = settings
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// send sends a request on a new connection, and returns the status.
func (s *tlsServer) send(t *testing.T, method, path string, certificates []tls.Certificate) (status int, err error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.roots.Root)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}, DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, http.NoBody)
	testkit.Must(t, err)
	got, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = got.Body.Close() }()
	return got.StatusCode, nil
}

func TestClientCertificateIsRequired(t *testing.T) {
	s := serveTLS(t)
	ada := pkix.Name{CommonName: "ada", Organization: []string{"ops"}}
	for _, test := range []struct {
		name, path   string
		certificates []tls.Certificate
		want         int // 0 for no connection
	}{
		{"a probe without a certificate", "/readyz", nil, 503},
		{"a page without a certificate", "/admin/config", nil, 403},
		{"of the client authority", "/admin/config", s.users.Client(t, ada, 7).TLS(t), 200},
		{"of an unknown authority", "/readyz", certstest.NewAuthority(t, "root").Client(t, ada, 7).TLS(t), 0},
		{"of the listener's own authority", "/admin/config", s.roots.Client(t, ada, 7).TLS(t), 0},
		{"a server certificate", "/admin/config", s.users.Server(t, 7).TLS(t), 0},
	} {
		got, err := s.send(t, "GET", test.path, test.certificates)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("%s: got %d, %v", test.name, got, err)
		}
	}
}

func TestResetLogsTheSubjectOfTheCertificate(t *testing.T) {
	s := serveTLS(t)
	for by, subject := range map[string]pkix.Name{"CN=ada,O=ops": {CommonName: "ada", Organization: []string{"ops"}}, "serial 77": {}} {
		if got, err := s.send(t, "DELETE", "/admin/limits/tok-1", s.users.Client(t, subject, 77).TLS(t)); got != 204 {
			t.Errorf("%s: got %d, %v", by, got, err)
		}
		if want := fmt.Sprintf(`"by":%q`, by); !strings.Contains(s.log.String(), want) {
			t.Errorf("no %s in %s", want, s.log)
		}
	}
}
