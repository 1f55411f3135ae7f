package chaos

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/backendclient/testkit/dnstest"
	"opsgate/backendclient/tlsfiles/tlsfilestest"
)

// publicTLS is the certificate of public listeners, in files that tests replace.
type publicTLS struct {
	authority *tlsfilestest.Authority
	cert, key string
}

func newPublicTLS(t testing.TB) *publicTLS {
	t.Helper()
	p := &publicTLS{authority: tlsfilestest.NewAuthority(t, "root")}
	pair := p.authority.Server(t, 1)
	files := tlsfilestest.Write(t, pair.Certificate, pair.Key)
	p.cert, p.key = files[0], files[1]
	return p
}

func (p *publicTLS) config() string {
	return fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", p.cert, p.key)
}

func (p *publicTLS) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(p.authority.Root)
	return roots
}

// client returns the configuration of its clients.
func (p *publicTLS) client() *tls.Config {
	return &tls.Config{RootCAs: p.roots(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// replace replaces the certificate.
func (p *publicTLS) replace(t *testing.T, serial int64) {
	t.Helper()
	putPair(t, p.authority.Server(t, serial), p.cert, p.key)
}

// putPair replaces the files one after the other, like renewal tools.
func putPair(t *testing.T, pair tlsfilestest.Pair, cert, key string) {
	t.Helper()
	put(t, cert, pair.Certificate)
	put(t, key, pair.Key)
}

func put(t *testing.T, file string, content []byte) {
	t.Helper()
	testkit.Must(t, os.WriteFile(file+".next", content, 0o600))
	testkit.Must(t, os.Rename(file+".next", file))
}

// serial returns the serial number of the certificate on a new connection.
func (p *publicTLS) serial(t *testing.T, address string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: p.roots(), MinVersion: tls.VersionTLS12})
	testkit.Must(t, err)
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestPublicCertificateReplacedUnderLoad(t *testing.T) {
	parallel(t)
	public := newPublicTLS(t)
	g := startGateway(t, everyService(shared.address), unlimited+public.config())
	kept := load{gateways: []*gateway{g}, client: newClient(t, public.roots()), rate: either(200.0, 50.0), clients: 16}
	fresh := kept
	fresh.client = newClient(t, public.roots())
	fresh.client.Transport = withoutKeepAlives(fresh.client.Transport)
	stopKept, stopFresh := kept.start(t), fresh.start(t)
	for serial := int64(2); serial < either[int64](6, 4); serial++ {
		sleep(t, either(time.Second, 300*time.Millisecond))
		put(t, public.cert, []byte("half of a certif"))
		sleep(t, either(time.Second, 300*time.Millisecond))
		if shown := public.serial(t, g.socket()); shown != serial-1 {
			t.Errorf("with an incomplete file the certificate is number %d, want %d", shown, serial-1)
		}
		public.replace(t, serial)
		within(t, "until new connections had the new certificate", testkit.Eventually(t, "the new certificate is used", func() bool {
			return public.serial(t, g.socket()) == serial
		}), time.Second)
	}
	noneFailed(t, append(stopKept(), stopFresh()...))
}

// An endpoint is an address of all services with mutual TLS.
type endpoint struct {
	*publicTLS

	address string
	stop    func()

	mu   sync.Mutex
	seen map[int64]int // connections by serial number of the client certificate
}

// renew closes all connections, and accepts new ones with another certificate.
func (e *endpoint) renew(t *testing.T, serial int64) {
	t.Helper()
	if e.stop != nil {
		e.stop()
	}
	listener, err := tls.Listen("tcp", e.address, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: e.roots(),
		Certificates: e.authority.Server(t, serial).TLS(t),
		VerifyConnection: func(state tls.ConnectionState) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.seen[state.PeerCertificates[0].SerialNumber.Int64()]++
			return nil
		},
	})
	testkit.Must(t, err)
	e.stop = forwardFrom(t, listener, shared.address, func(c *call) error { return c.forward(c) })
}

// connections returns the number of connections with that client certificate so far. Each of the five services has its own.
func (e *endpoint) connections(serial int64) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[serial]
}

// Both certificates of mutual TLS between a gateway and the services are replaced, with incomplete files in between.
func TestServiceCertificatesReplacedUnderLoad(t *testing.T) {
	skipIfShort(t)
	files := newPublicTLS(t)
	port := port(t, testkit.FreeAddress(t))
	both := []*endpoint{}
	for _, host := range []string{"127.0.0.1:", "127.0.0.2:"} {
		e := &endpoint{publicTLS: files, address: host + port, seen: map[int64]int{}}
		e.renew(t, 1)
		both = append(both, e)
	}
	name := "dns://" + dnstest.Start(t, dnstest.Addresses("127.0.0.1", "127.0.0.2")).Address + "/backend.test:" + port
	client := func(serial int64) {
		putPair(t, files.authority.Client(t, pkix.Name{CommonName: "gateway"}, serial), files.cert, files.key)
	}
	client(100)
	roots := tlsfilestest.Write(t, files.authority.PEM)[0]
	setUpstreamTLS(t, map[string]string{"ENABLED": "true", "CA_FILE": roots, "CERT_FILE": files.cert, "KEY_FILE": files.key, "SERVER_NAME": "127.0.0.1"})
	g := startGateway(t, everyService(name), unlimited)
	stop := load{gateways: []*gateway{g}, rate: either(200.0, 50.0), clients: 16}.start(t)
	for serial := int64(101); serial < either[int64](105, 103); serial++ {
		sleep(t, either(time.Second, 500*time.Millisecond))
		put(t, files.cert, []byte("half of a certif"))
		sleep(t, either(time.Second, 300*time.Millisecond))
		client(serial)
		for _, one := range both { // one after the other
			one.renew(t, serial)
			within(t, "until a service received the new certificate", testkit.Eventually(t, "the new certificate is used", func() bool {
				return one.connections(serial) > 0
			}), time.Second)
			testkit.Eventually(t, "both endpoints of each service get calls", func() bool {
				return one.connections(serial) >= 5 && g.hasEndpoints(t, 2)
			})
		}
		testkit.Eventually(t, "the gateway is ready again", func() bool { return strings.Contains(g.get(t, "/readyz"), `"status":"ready"`) })
	}
	noneFailed(t, stop())
}

// setUpstreamTLS sets keys of the TLS of every service, for gateways that start from then on.
func setUpstreamTLS(t *testing.T, values map[string]string) {
	t.Helper()
	for _, service := range []string{"FLEET", "MONITORING", "INCIDENT", "AUDIT", "IDENTITY"} {
		for key, value := range values {
			t.Setenv("OPSGATE_UPSTREAMS_"+service+"_TLS_"+key, value)
		}
	}
}
