package backendclient_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"opsgate/backendclient"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// An authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := new(authority)
	a.certificate, a.key = issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	return a
}

func issue(t *testing.T, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// pair returns a certificate for a name and its key, in PEM.
func (a *authority) pair(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	leaf, private := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", leaf.Raw), encode("PRIVATE KEY", der)
}

func (a *authority) root() []byte { return encode("CERTIFICATE", a.certificate.Raw) }

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// A securedService speaks TLS, asks for a certificate of its roots, and remembers whose it got.
type securedService struct {
	listener *cutting
	clients  chan string
	config   *tls.Config // of connections that are made from now on
	mu       sync.Mutex
}

// cutting is a listener whose connections can be cut.
type cutting struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func (l *cutting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.open = append(l.open, c)
		l.mu.Unlock()
	}
	return c, err
}

func (l *cutting) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

func (s *securedService) use(t *testing.T, a *authority) {
	t.Helper()
	certificate, key := a.pair(t, "fleet.example")
	own, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = &tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, NextProtos: []string{"h2"},
	}
}

func secured(t *testing.T, a *authority) *securedService {
	t.Helper()
	s := &securedService{listener: &cutting{Listener: listen(t, "127.0.0.1:0")}, clients: make(chan string, 10)}
	s.use(t, a)
	b := &backend{getServer: func(ctx context.Context) (*fleetv1.GetServerResponse, error) {
		p, _ := peer.FromContext(ctx)
		s.clients <- p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName
		return &fleetv1.GetServerResponse{}, nil
	}}
	b.serve(t, s.listener, grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.config, nil
		},
	})))
	return s
}

// write writes files of a client of the authority in the folder, and returns what names them.
func write(t *testing.T, folder string, a *authority, name string) *backendclient.TLS {
	t.Helper()
	certificate, key := a.pair(t, name)
	path := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return &backendclient.TLS{
		CAFile: path("ca.pem", a.root()), CertFile: path("cert.pem", certificate), KeyFile: path("key.pem", key), ServerName: "fleet.example",
	}
}

// over returns clients of the service whose calls wait until there is a connection.
func (s *securedService) dial(t *testing.T, files *backendclient.TLS, log *slog.Logger) *backendclient.Clients {
	t.Helper()
	upstreams := at("passthrough:///x")
	upstreams.Fleet = backendclient.Upstream{Address: s.listener.Addr().String(), TLS: files}
	return dial(t, upstreams, func(o *backendclient.Options) {
		o.Logger = log
		o.DialOptions = []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.WaitForReady(true))}
	})
}

func TestCertificatesAreReadAgain(t *testing.T) {
	first := newAuthority(t, "first")
	service, folder := secured(t, first), t.TempDir()
	log := new(lockedBuffer)
	clients := service.dial(t, write(t, folder, first, "gateway-1"), slog.New(slog.NewTextHandler(log, nil)))
	calledAs := func(want string) {
		t.Helper()
		if err := getServer(t, clients); err != nil {
			t.Fatal(err)
		}
		if got := <-service.clients; got != want {
			t.Errorf("called as %s, want %s", got, want)
		}
	}
	calledAs("gateway-1")

	second := newAuthority(t, "second")
	write(t, folder, second, "gateway-2")
	calledAs("gateway-1") // connections stay
	service.use(t, second)
	service.listener.cut()
	calledAs("gateway-2")

	if err := os.WriteFile(filepath.Join(folder, "key.pem"), []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	service.listener.cut()
	calledAs("gateway-2")
	if !strings.Contains(log.String(), "TLS files that cannot be read are not used") {
		t.Errorf("logged %s", log)
	}
}

// A lockedBuffer takes what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestConnectionsThatCannotBePrivateAreNotMade(t *testing.T) {
	known, other := newAuthority(t, "known"), newAuthority(t, "other")
	service := secured(t, known)
	plain := listen(t, "127.0.0.1:0")
	(&backend{}).serve(t, plain)
	files := func(change func(*backendclient.TLS)) *backendclient.TLS {
		f := write(t, t.TempDir(), known, "gateway")
		change(f)
		return f
	}
	for _, test := range []struct {
		name, address string
		files         *backendclient.TLS
	}{
		{"roots of others", service.listener.Addr().String(), files(func(f *backendclient.TLS) {
			f.CAFile = write(t, t.TempDir(), other, "x").CAFile
		})},
		{"roots of the system", service.listener.Addr().String(), files(func(f *backendclient.TLS) { f.CAFile = "" })},
		{"another name", service.listener.Addr().String(), files(func(f *backendclient.TLS) { f.ServerName = "audit.example" })},
		{"no certificate of ours", service.listener.Addr().String(), files(func(f *backendclient.TLS) { f.CertFile, f.KeyFile = "", "" })},
		{"a certificate of others", service.listener.Addr().String(), files(func(f *backendclient.TLS) {
			o := write(t, t.TempDir(), other, "x")
			f.CertFile, f.KeyFile = o.CertFile, o.KeyFile
		})},
		{"a service that does not speak TLS", plain.Addr().String(), files(func(*backendclient.TLS) {})},
		{"a service that does", service.listener.Addr().String(), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			upstreams := at("passthrough:///x")
			upstreams.Fleet = backendclient.Upstream{Address: test.address, TLS: test.files}
			if e := failure(t, getServer(t, dial(t, upstreams))); e.Code != codes.Unavailable {
				t.Errorf("%v, want Unavailable", e)
			}
		})
	}
}

func TestDialRefusesTLSFilesThatAreNone(t *testing.T) {
	good := write(t, t.TempDir(), newAuthority(t, "known"), "gateway")
	for name, files := range map[string]backendclient.TLS{
		"no such roots":          {CAFile: "nowhere.pem"},
		"roots that are a key":   {CAFile: good.KeyFile},
		"no such certificate":    {CertFile: "nowhere.pem", KeyFile: good.KeyFile},
		"a key that is no key":   {CertFile: good.CertFile, KeyFile: good.CertFile},
		"a certificate, no more": {CertFile: good.CertFile},
	} {
		upstreams := at("passthrough:///x")
		upstreams.Audit.TLS = &files
		_, err := backendclient.Dial(backendclient.Options{Upstreams: upstreams})
		if err == nil || !strings.HasPrefix(err.Error(), "dial audit: read the ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
