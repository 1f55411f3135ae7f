package httpserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
)

// proxiedServer is a server whose responses have the protocol and the address of the client.
type proxiedServer struct {
	address string
	log     testkit.Buffer
	roots   *x509.CertPool // nil for plain HTTP
}

func serveProxied(t *testing.T, withTLS bool, from string) *proxiedServer {
	t.Helper()
	s := &proxiedServer{}
	o := Options{
		Name: "public", Address: "127.0.0.1:0", ProxiedFrom: []netip.Prefix{netip.MustParsePrefix(from)},
		Limits: Limits{Connections: 100, Input: 1 << 20, HeaderBytes: 8 << 10, HeaderTimeout: time.Minute, WriteTimeout: time.Minute},
		Errors: slog.NewTextHandler(&s.log, nil), Registerer: prometheus.NewRegistry(), MetricPrefix: "test",
	}
	if withTLS {
		authority := certstest.NewAuthority(t, "root")
		certificates := authority.Server(t, 1).TLS(t)
		o.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}, Certificates: certificates, MinVersion: tls.VersionTLS13,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }}
		s.roots = x509.NewCertPool()
		s.roots.AddCert(authority.Root)
	}
	server, err := Listen(t.Context(), o)
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, r.Proto, " ", r.RemoteAddr)
		}))
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.ShutDown(ctx)
		<-ended
	})
	s.address = server.Addr().String()
	return s
}

// get sends a request on a connection that begins with a header, and returns the text of the
// response.
func (s *proxiedServer) get(header []byte, http2 bool) (string, error) {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: http2,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil {
				_, err = conn.Write(header)
			}
			return conn, err
		},
	}
	defer transport.CloseIdleConnections()
	scheme := "http://"
	if s.roots != nil {
		scheme = "https://"
	}
	client := http.Client{Transport: transport, Timeout: 20 * time.Second}
	response, err := client.Get(scheme + s.address)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.Proto + " " + string(text), err
}

// header2 returns a header of version 2.
func header2(t *testing.T, command proxyproto.ProtocolVersionAndCommand, source net.Addr) []byte {
	t.Helper()
	h := proxyproto.HeaderProxyFromAddrs(2, source, source)
	h.Command = command
	testkit.Must(t, h.SetTLVs([]proxyproto.TLV{{Type: proxyproto.PP2_TYPE_UNIQUE_ID, Value: make([]byte, 100)}}))
	bytes, err := h.Format()
	testkit.Must(t, err)
	return bytes
}

func tcp(address string) *net.TCPAddr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
}

func TestClientOfAProxiedConnection(t *testing.T) {
	plain, secure := serveProxied(t, false, "127.0.0.0/8"), serveProxied(t, true, "127.0.0.0/8")
	for name, c := range map[string]struct {
		header []byte
		client string
	}{
		"version 1":       {[]byte("PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n"), "203.0.113.7:4711"},
		"version 1, IPv6": {[]byte("PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n"), "[2001:db8::7]:4711"},
		"UNKNOWN":         {[]byte("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"), "127.0.0.1:"},
		"version 2":       {header2(t, proxyproto.PROXY, tcp("203.0.113.7:4711")), "203.0.113.7:4711"},
		"version 2, IPv6": {header2(t, proxyproto.PROXY, tcp("[2001:db8::7]:4711")), "[2001:db8::7]:4711"},
		"LOCAL":           {header2(t, proxyproto.LOCAL, tcp("203.0.113.7:4711")), "127.0.0.1:"},
	} {
		for proto, get := range map[string]func() (string, error){
			"HTTP/1.1 ": func() (string, error) { return plain.get(c.header, false) },
			"HTTP/1.1":  func() (string, error) { return secure.get(c.header, false) },
			"HTTP/2.0":  func() (string, error) { return secure.get(c.header, true) },
		} {
			if got, err := get(); err != nil || !strings.HasPrefix(got, proto) || !strings.Contains(got, " "+c.client) {
				t.Errorf("%s, %s: got %q, %v", name, proto, got, err)
			}
		}
	}
}

// The time of the header is a second, and each connection has its own.
func TestProxiedConnectionWithoutAValidHeaderIsClosed(t *testing.T) {
	udp := &net.UDPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 53}
	whole := header2(t, proxyproto.PROXY, tcp("203.0.113.7:4711"))
	long := slices.Concat(whole, make([]byte, 70_000))
	long[14], long[15] = 0xff, 0xff
	for _, withTLS := range []bool{false, true} {
		s := serveProxied(t, withTLS, "127.0.0.0/8")
		for name, c := range map[string]struct {
			sent []byte
			log  string
		}{
			"no header":      {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "signature not present"},
			"no bytes":       {nil, "i/o timeout"},
			"half a header":  {[]byte("PROXY TCP4 203.0.1"), "version 1 header"},
			"half of 2":      {whole[:20], "i/o timeout"},
			"invalid":        {[]byte("PROXY TCP4 localhost 192.0.2.1 4711 443\r\n"), "invalid address"},
			"a huge length":  {long, "invalid length"},
			"no TCP address": {header2(t, proxyproto.PROXY, udp), "203.0.113.7:53 is no TCP address"},
		} {
			t.Run(fmt.Sprint(name, ", TLS ", withTLS), func(t *testing.T) {
				conn, err := net.Dial("tcp", s.address)
				testkit.Must(t, err)
				defer func() { _ = conn.Close() }()
				_, _ = conn.Write(c.sent) // the server may have closed the connection
				testkit.Must(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
				if answer, err := io.ReadAll(conn); len(answer) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("got %q, %v", answer, err)
				}
				peer := conn.LocalAddr().String()
				testkit.Eventually(t, "the log has "+c.log, func() bool {
					return slices.ContainsFunc(strings.Split(s.log.String(), "\n"), func(line string) bool {
						return strings.Contains(line, peer) && strings.Contains(line, c.log)
					})
				})
			})
		}
	}
}

// A header from others is a bad request, or no TLS.
func TestOthersMustNotSendAProxyHeader(t *testing.T) {
	header := []byte("PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n")
	for _, withTLS := range []bool{false, true} {
		s := serveProxied(t, withTLS, "192.0.2.0/24")
		if got, err := s.get(nil, false); err != nil || !strings.Contains(got, " 127.0.0.1:") {
			t.Errorf("TLS %t: got %q, %v", withTLS, got, err)
		}
		if got, err := s.get(header, false); err == nil && !strings.Contains(got, "400 Bad Request") {
			t.Errorf("TLS %t, with a header: got %q", withTLS, got)
		}
	}
}

func TestSilentProxiedConnectionsDoNotDelayOthers(t *testing.T) {
	s := serveProxied(t, false, "127.0.0.0/8")
	for range 40 { // one after the other they would take 40 s
		conn, err := net.Dial("tcp", s.address)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	if got, err := s.get([]byte("PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n"), false); err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// Health checks connect and close.
func TestClosedProxiedConnectionIsNotLogged(t *testing.T) {
	s := serveProxied(t, false, "127.0.0.0/8")
	conn, err := net.Dial("tcp", s.address)
	testkit.Must(t, err)
	testkit.Must(t, conn.(*net.TCPConn).CloseWrite())
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
	testkit.Must(t, conn.Close())
	if s.log.String() != "" {
		t.Errorf("log: %s", s.log.String())
	}
}

func TestResetProxiedConnectionIsNoError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer listener.Close()
	peer, err := net.Dial("tcp", listener.Addr().String())
	testkit.Must(t, err)
	conn, err := listener.Accept()
	testkit.Must(t, err)
	defer conn.Close()
	testkit.Must(t, peer.(*net.TCPConn).SetLinger(0))
	testkit.Must(t, peer.Close())
	var p proxied
	if p.readHeader(conn.(*net.TCPConn)); !errors.Is(p.err, io.EOF) {
		t.Errorf("got %v", p.err)
	}
}
