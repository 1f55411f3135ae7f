package wiring_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// secure is a gateway with TLS on its public listener.
type secure struct {
	*running

	authority *certstest.Authority
	cert, key string
}

// secureGateway runs a gateway with TLS and additional configuration.
func secureGateway(t *testing.T, services *servicestest.Services, text string) *secure {
	t.Helper()
	authority, files := newTLSFiles(t)
	s := &secure{authority: authority, cert: files[0], key: files[1]}
	s.running = startWith(t, services, s.files()+text)
	return s
}

// newTLSFiles returns an authority and the paths of a certificate and its key.
func newTLSFiles(t *testing.T) (*certstest.Authority, []string) {
	t.Helper()
	authority := certstest.NewAuthority(t, "root")
	own := authority.Server(t, 1)
	return authority, certstest.Write(t, own.Certificate, own.Key)
}

func (s *secure) files() string {
	return fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", s.cert, s.key)
}

func (s *secure) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.authority.Root)
	return roots
}

// client returns a client with new connections, over HTTP/2 or HTTP/1.1.
func (s *secure) client(t *testing.T, http2 bool) *http.Transport {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots(), MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: http2,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// do sends a request and returns the response and its body.
func (s *secure) do(client http.RoundTripper, method, path string, body io.Reader) (*http.Response, string, error) {
	request, err := http.NewRequest(method, "https://"+s.Address().String()+path, body)
	if err != nil {
		return nil, "", err
	}
	request.Header = http.Header{"Authorization": {"Bearer " + s.token}}
	got, err := client.RoundTrip(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	return got, string(text), err
}

func TestPublicListenerProtocols(t *testing.T) {
	services := servicestest.Start(t)
	s := secureGateway(t, services, "")
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		got, _, err := s.do(s.client(t, http2), "GET", "/v1/servers", nil)
		testkit.Must(t, err)
		if got.StatusCode != 200 || got.Proto != proto || got.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("got %s over %s, want %s: %v", got.Status, got.Proto, proto, got.Header)
		}
	}
	s.mustGet(t, "/v1/servers", 400) // in plain HTTP
	for what, old := range map[string]*tls.Config{
		"TLS 1.1": {RootCAs: s.roots(), MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
		"CBC": {
			RootCAs: s.roots(), MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA},
		},
	} {
		if conn, err := tls.Dial("tcp", s.Address().String(), old); err == nil {
			_ = conn.Close()
			t.Errorf("%s is accepted", what)
		}
	}
}

// A renewed certificate whose key does not fit is not used, and a restart would fail.
func TestRefusedCertificateIsReportedWhileRunning(t *testing.T) {
	s := secureGateway(t, servicestest.Start(t), "")
	soon, renewed := time.Now().Add(5*24*time.Hour), time.Now().Add(90*24*time.Hour)
	const expires = "certificate:tls.cert_file configuration.md#a-certificate-expires"
	write := func(pair certstest.Pair, key []byte) {
		t.Helper()
		testkit.Must(t, os.WriteFile(s.cert, pair.Certificate, 0o600))
		testkit.Must(t, os.WriteFile(s.key, key, 0o600))
	}
	is := func(what string, end time.Time, refused string, findings ...string) {
		t.Helper()
		testkit.Eventually(t, what, func() bool {
			value, err := strconv.ParseFloat(s.metric(t, `opsgate_tls_certificate_expiry_timestamp_seconds{key="tls.cert_file"}`), 64)
			return err == nil && int64(value) == end.Unix() && s.metric(t, `opsgate_config_refused{key="tls.key_file"}`) == refused &&
				slices.Equal(s.findings(t), findings)
		})
	}
	first := s.authority.Valid(t, 2, time.Time{}, soon)
	write(first, first.Key)
	is("a certificate of 5 days is a finding", soon, "", expires)
	next := s.authority.Valid(t, 3, time.Time{}, renewed)
	write(next, first.Key)
	is("a refused certificate is a finding", soon, "1", "reload configuration.md#a-certificate-is-refused", expires)
	write(next, next.Key)
	is("the findings end", renewed, "")
	s.write(t, s.files()+"typo: 1\n")
	last := s.authority.Valid(t, 4, time.Time{}, renewed.Add(time.Hour))
	write(last, last.Key)
	is("a certificate renewed while a reload is refused is in use", renewed.Add(time.Hour), "", "reload configuration.md#a-reload-failed")
	s.finish(t)
}

// findings returns the findings of the admin page, with their runbooks.
func (r *running) findings(t *testing.T) (list []string) {
	t.Helper()
	for _, f := range getJSON[admin.State](t, r, "/admin/state").Findings {
		list = append(list, f.Key+" "+f.Runbook)
	}
	return list
}
