package wiring_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"

	"opsgate/cmd/internal/gate/admin/admintest"
)

// secure is a gateway with TLS on its public listener.
type secure struct {
	*reloading

	authority *admintest.Authority
	cert, key string
}

// secureGateway runs a gateway with TLS and additional configuration.
func secureGateway(t *testing.T, services *services, text string) *secure {
	t.Helper()
	authority, files := newTLSFiles(t)
	s := &secure{authority: authority, cert: files[0], key: files[1]}
	s.reloading = reloadingGateway(t, services, s.files()+text)
	return s
}

// newTLSFiles returns an authority and the paths of a certificate and its key.
func newTLSFiles(t *testing.T) (*admintest.Authority, []string) {
	t.Helper()
	authority := admintest.NewAuthority(t)
	own := authority.Server(t, 1)
	return authority, admintest.Write(t, own.Certificate, own.Key)
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
func (s *secure) do(client http.RoundTripper, method, path string, header http.Header, body io.Reader) (*http.Response, string, error) {
	request, err := http.NewRequest(method, "https://"+s.Address().String()+path, body)
	if err != nil {
		return nil, "", err
	}
	request.Header = http.Header{"Authorization": {"Bearer " + s.token}}
	maps.Copy(request.Header, header)
	got, err := client.RoundTrip(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	return got, string(text), err
}

func TestPublicListenerProtocols(t *testing.T) {
	services := startServices(t)
	s := secureGateway(t, services, "")
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		got, _, err := s.do(s.client(t, http2), "GET", "/v1/servers", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode != 200 || got.Proto != proto {
			t.Errorf("got %s over %s, want %s", got.Status, got.Proto, proto)
		}
	}
	if got := s.get(t, s.Address(), "/v1/servers"); got.status != 400 {
		t.Errorf("in plain HTTP: got %+v", got)
	}
	old := &tls.Config{RootCAs: s.roots(), MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if conn, err := tls.Dial("tcp", s.Address().String(), old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is accepted")
	}
	s.finish(t)
}

func TestTLSResponsesHaveSecurityHeaders(t *testing.T) {
	services := startServices(t)
	s := secureGateway(t, services, "rate_limit: {limits: [{requests: 1000, per: 1m}]}\n")
	for _, http2 := range []bool{false, true} {
		client := s.client(t, http2)
		for _, c := range []struct {
			method, path, credential string
			status                   int
		}{
			{"GET", "/v1/servers", "Bearer " + s.token, 200},
			{"HEAD", "/v1/servers", "Bearer " + s.token, 200},
			{"OPTIONS", "/v1/servers", "Bearer " + s.token, 204},
			{"GET", "/v1/servers", "", 401},
			{"GET", "/v1/nothing", "Bearer " + s.token, 404},
			{"GET", "/docs/", "", 200},
			{"GET", "/docs", "", 308},
		} {
			got, _, err := s.do(client, c.method, c.path, http.Header{"Authorization": {c.credential}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			sniff, secure := got.Header.Get("X-Content-Type-Options"), got.Header.Get("Strict-Transport-Security")
			if got.StatusCode != c.status || sniff != "nosniff" || secure != "max-age=31536000" {
				t.Errorf("%s %s over %s: %s, %q, %q", c.method, c.path, got.Proto, got.Status, sniff, secure)
			}
		}
	}
	s.finish(t)
}

func TestPublicListenerRefusesCBCSuites(t *testing.T) {
	services := startServices(t)
	s := secureGateway(t, services, "")
	for _, suite := range []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA} {
		config := &tls.Config{RootCAs: s.roots(), MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}}
		if conn, err := tls.Dial("tcp", s.Address().String(), config); err == nil {
			_ = conn.Close()
			t.Errorf("%s is accepted", tls.CipherSuiteName(suite))
		}
	}
	s.finish(t)
}
