package chaos

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/admin/admintest"
	"opsgate/cmd/internal/gate/sizing"
)

// BenchmarkTLS measures the CPU time of the gateway per request, by kind of connection: 16 clients list the demo's servers. The cost of
// a handshake is the difference of two rows; it checks the one that `opsgate size` assumes.
func BenchmarkTLS(b *testing.B) {
	authority := admintest.NewAuthority(b)
	p256 := secured{pair: authority.Server(b, 1), root: authority.Root}
	rsa2048 := rsaSecured(b)
	measured := map[string]time.Duration{}
	for _, row := range []struct {
		name           string
		secured        *secured
		http2, resumes bool
		ends           bool // one request per connection
	}{
		{name: "kept connection: no TLS"},
		{name: "kept connection: HTTP 1.1", secured: &p256},
		{name: "kept connection: HTTP 2", secured: &p256, http2: true},
		{name: "new connection: no TLS", ends: true},
		{name: "new connection: P-256", secured: &p256, ends: true},
		{name: "new connection: P-256 resumed", secured: &p256, ends: true, resumes: true},
		{name: "new connection: RSA 2048", secured: &rsa2048, ends: true},
	} {
		b.Run(row.name, func(b *testing.B) {
			config := unlimited
			if row.secured != nil {
				files := admintest.Write(b, row.secured.pair.Certificate, row.secured.pair.Key)
				config += fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\n", files[0], files[1])
			}
			g := startGateway(b, everyService(shared.address), config)
			client := func() *http.Transport {
				own := &http.Transport{ForceAttemptHTTP2: row.http2, DisableKeepAlives: row.ends}
				if row.secured != nil {
					own.TLSClientConfig = row.secured.client(row.resumes)
				}
				b.Cleanup(own.CloseIdleConnections)
				return own
			}
			requestServers(b, g, client())
			before := g.metric(b, "process_cpu_seconds_total")
			b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(pb *testing.PB) {
				for own := client(); pb.Next(); {
					requestServers(b, g, own)
				}
			})
			seconds := (g.metric(b, "process_cpu_seconds_total") - before) / float64(b.N)
			measured[row.name] = time.Duration(seconds * float64(time.Second))
			b.ReportMetric(seconds*1e6, "gateway-µs/op")
		})
	}
	handshake, assumed := measured["new connection: P-256"]-measured["new connection: no TLS"], sizing.Measured().Handshake
	if len(measured) == 7 && (handshake > assumed*5/4 || handshake < assumed/2) {
		b.Errorf("a handshake takes %v, and opsgate size assumes %v", handshake, assumed)
	}
}

// secured is the certificate of a listener and the root that its clients trust.
type secured struct {
	pair admintest.Pair
	root *x509.Certificate
}

func (s *secured) client(resumes bool) *tls.Config {
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.RootCAs.AddCert(s.root)
	if resumes {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	return c
}

// rsaSecured returns a self-signed certificate with an RSA key.
func rsaSecured(b *testing.B) secured {
	b.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(b, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(b, err)
	root, err := x509.ParseCertificate(der)
	must(b, err)
	return secured{root: root, pair: admintest.Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}}
}

// requestServers lists the servers of the demo.
func requestServers(b *testing.B, g *gateway, client *http.Transport) {
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, g.url+"/v1/servers", http.NoBody)
	if err != nil {
		b.Error(err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+tokens(b)["full"].Text)
	response, err := client.RoundTrip(request)
	if err != nil {
		b.Error(err)
		return
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		b.Errorf("%s, %v", response.Status, err)
	}
	_ = response.Body.Close()
}
