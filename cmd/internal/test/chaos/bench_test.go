package chaos

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// BenchmarkStart measures the time from starting the gateway to its first response, with all
// dependencies unavailable, and its CPU time from start to exit.
func BenchmarkStart(b *testing.B) {
	unreachable := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nshutdown: {drain_wait: 0s}\n" + everyService("127.0.0.1:1").configuration()
	for name, config := range map[string]string{
		"services down":           unreachable,
		"services and Redis down": unreachable + "rate_limit: {store: redis, redis: {addresses: [127.0.0.1:1]}}\n",
	} {
		b.Run(name, func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "opsgate.yaml")
			testkit.Must(b, os.WriteFile(file, []byte(config), 0o600))
			var all []time.Duration
			var processors time.Duration
			for b.Loop() {
				begun := time.Now()
				p, err := launch("opsgate", "serve", "--config="+file)
				testkit.Must(b, err)
				err = firstResponse(p)
				all = append(all, time.Since(begun))
				if err := errors.Join(err, p.Stop()); err != nil {
					b.Fatalf("%v\n%s", err, p.Log.String())
				}
				processors += p.Cmd.ProcessState.UserTime() + p.Cmd.ProcessState.SystemTime()
			}
			slices.Sort(all)
			b.ReportMetric(0, "ns/op") // would include the exit
			b.ReportMetric(all[len(all)/2].Seconds()*1e3, "ms/median")
			b.ReportMetric(all[len(all)-1].Seconds()*1e3, "ms/slowest")
			b.ReportMetric(processors.Seconds()*1e3/float64(b.N), "cpu-ms/life")
		})
	}
}

// firstResponse waits until a gateway logs its address, and gets a response from it.
func firstResponse(p *testkit.Process) error {
	tick := time.NewTicker(time.Millisecond / 4) // the interval adds to the measured time
	defer tick.Stop()
	for range tick.C {
		_, after, serving := strings.Cut(p.Log.String(), `"msg":"serving"`)
		select {
		case <-p.Exited:
			return errors.New("it exited")
		default:
		}
		if line, _, whole := strings.Cut(after, "\n"); serving && whole {
			var at struct{ Listen string }
			if err := json.Unmarshal([]byte("{"+strings.TrimPrefix(line, ",")), &at); err != nil {
				return err
			}
			response, err := http.Get("http://" + at.Listen + "/v1/servers")
			if err != nil {
				return err
			}
			if response.StatusCode != http.StatusUnauthorized {
				return fmt.Errorf("without a token: %s", response.Status)
			}
			return response.Body.Close()
		}
	}
	return nil
}

// BenchmarkTLS measures the CPU time of the gateway per request, by kind of connection: 16 clients
// list the demo's servers. The cost of a handshake is the difference of two rows.
func BenchmarkTLS(b *testing.B) {
	p256, rsa2048 := newPublicTLS(b), newRSA(b)
	for _, row := range []struct {
		name           string
		public         *publicTLS
		http2, resumes bool
		ends           bool // one request per connection
	}{
		{name: "kept connection: no TLS"},
		{name: "kept connection: HTTP 1.1", public: p256},
		{name: "kept connection: HTTP 2", public: p256, http2: true},
		{name: "new connection: no TLS", ends: true},
		{name: "new connection: P-256", public: p256, ends: true},
		{name: "new connection: P-256 resumed", public: p256, ends: true, resumes: true},
		{name: "new connection: RSA 2048", public: rsa2048, ends: true},
	} {
		b.Run(row.name, func(b *testing.B) {
			config := unlimited
			if row.public != nil {
				config += row.public.config()
			}
			g := startGateway(b, everyService(shared.address), config)
			client := func() *http.Transport {
				own := &http.Transport{ForceAttemptHTTP2: row.http2, DisableKeepAlives: row.ends}
				if row.public != nil {
					own.TLSClientConfig = row.public.client()
				}
				if row.resumes {
					own.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
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
			b.ReportMetric(seconds*1e6, "gateway-µs/op")
		})
	}
}

// newRSA returns a self-signed certificate with an RSA key.
func newRSA(b *testing.B) *publicTLS {
	b.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	testkit.Must(b, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	testkit.Must(b, err)
	root, err := x509.ParseCertificate(der)
	testkit.Must(b, err)
	files := certstest.Write(b, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return &publicTLS{authority: &certstest.Authority{Root: root}, cert: files[0], key: files[1]}
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
