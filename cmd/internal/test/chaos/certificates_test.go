package chaos

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
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

// terminator terminates mutual TLS in front of a backend.
type terminator struct {
	*publicTLS

	address string
	to      string

	mu    sync.Mutex
	own   tls.Certificate
	conns []net.Conn
	seen  map[int64]int // connections by serial number of the client certificate
}

func startTerminator(t *testing.T, files *publicTLS, at, to string) *terminator {
	t.Helper()
	o := &terminator{publicTLS: files, to: to, seen: map[int64]int{}}
	o.renew(t, 1)
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: o.roots(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			own := o.own
			return &own, nil
		},
	}
	listener, err := tls.Listen("tcp", at, config)
	testkit.Must(t, err)
	o.address = listener.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { o.serve(conn.(*tls.Conn)) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		o.cut()
		serving.Wait()
	})
	return o
}

// serve forwards a connection to the backend.
func (o *terminator) serve(conn *tls.Conn) {
	defer func() { _ = conn.Close() }()
	if conn.Handshake() != nil {
		return
	}
	behind, err := net.Dial("tcp", o.to)
	if err != nil {
		return
	}
	o.mu.Lock()
	o.seen[conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()]++
	o.conns = append(o.conns, conn, behind)
	o.mu.Unlock()
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(behind, conn)
		_ = behind.Close()
	})
	_, _ = io.Copy(conn, behind)
	_ = conn.Close()
	copying.Wait()
}

// renew replaces the certificate for new connections.
func (o *terminator) renew(t *testing.T, serial int64) {
	t.Helper()
	pair := o.authority.Server(t, serial)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.own = pair.TLS(t)[0]
}

// cut closes all connections.
func (o *terminator) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, conn := range o.conns {
		_ = conn.Close()
	}
	o.conns = nil
}

// connections returns the number of connections with that client certificate so far. Each of the five services has its own.
func (o *terminator) connections(serial int64) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[serial]
}

// client replaces the client certificate of the gateway.
func (o *terminator) client(t *testing.T, serial int64) {
	t.Helper()
	putPair(t, o.authority.Client(t, pkix.Name{CommonName: "gateway"}, serial), o.cert, o.key)
}

// Both certificates of mutual TLS between a gateway and the services are replaced, with incomplete files in between.
func TestServiceCertificatesReplacedUnderLoad(t *testing.T) {
	skipIfShort(t)
	files := newPublicTLS(t)
	o := startTerminator(t, files, testkit.FreeAddress(t), shared.address)
	both := []*terminator{o, startTerminator(t, files, "127.0.0.2:"+port(t, o.address), shared.address)}
	name := "dns://" + dnstest.Start(t, dnstest.Addresses("127.0.0.1", "127.0.0.2")).Address + "/backend.test:" + port(t, o.address)
	o.client(t, 100)
	roots := tlsfilestest.Write(t, o.authority.PEM)[0]
	setUpstreamTLS(t, map[string]string{"ENABLED": "true", "CA_FILE": roots, "CERT_FILE": o.cert, "KEY_FILE": o.key, "SERVER_NAME": "127.0.0.1"})
	g := startGateway(t, everyService(name), unlimited)
	stop := load{gateways: []*gateway{g}, rate: either(200.0, 50.0), clients: 16}.start(t)
	for serial := int64(101); serial < either[int64](105, 103); serial++ {
		sleep(t, either(time.Second, 500*time.Millisecond))
		put(t, o.cert, []byte("half of a certif"))
		sleep(t, either(time.Second, 300*time.Millisecond))
		o.client(t, serial)
		for _, one := range both { // one after the other
			one.renew(t, serial)
			one.cut()
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
