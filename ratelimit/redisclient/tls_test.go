package redisclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore/redistest"
)

// A secured server has a TLS port, which requires client certificates of its authority, beside the
// plaintext port for the test.
type secured struct {
	*redistest.Server

	authority *certstest.Authority
	port      int // with TLS
}

func startSecured(t *testing.T, args ...string) *secured {
	t.Helper()
	s := &secured{authority: certstest.NewAuthority(t, "redis"), port: testkit.FreePort(t)}
	files := s.authority.Write(t, t.TempDir(), "redis")
	s.Server = redistest.Start(t, append(args, "--tls-port", strconv.Itoa(s.port),
		"--tls-ca-cert-file", files.CAFile, "--tls-cert-file", files.CertFile, "--tls-key-file", files.KeyFile)...)
	return s
}

// address returns the address with TLS.
func (s *secured) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func always(config *tls.Config) func(context.Context) *tls.Config {
	return func(context.Context) *tls.Config { return config }
}

func TestServerWithTLSAndPassword(t *testing.T) {
	server := startSecured(t, "--user", "gate", "on", ">secret", "~opsgate:*", "&opsgate:*", "+@all")
	o := redisclient.Options{
		Addresses: []string{server.address()}, TLS: always(server.authority.Config(t, "gateway")),
		Credentials: func() (string, string) { return "gate", "secret" },
	}
	s := running(t, newClient(t, o))
	d, err := s.Decide(t.Context(), "t", policy(t))
	if err = errors.Join(err, s.Refund(t.Context(), "t", d)); err != nil || !d.Allowed {
		t.Errorf("%+v, error %v", d, err)
	}
	testkit.Eventually(t, "it is subscribed to refunds", s.Subscribed)
	o.Credentials = func() (string, string) { return "gate", "guess" }
	if d, err := newStore(t, newClient(t, o)).Decide(t.Context(), "t", policy(t)); err == nil || strings.Contains(err.Error(), "guess") {
		t.Errorf("a wrong password: %+v, error %v", d, err)
	}
}

// Certificates are renewed while clients run: new connections use the new ones, existing
// connections stay.
func TestNewConnectionsUseTheCurrentCertificates(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (*secured, redisclient.Options){
		"single": func(t *testing.T) (*secured, redisclient.Options) {
			t.Helper()
			server := startSecured(t)
			return server, redisclient.Options{Addresses: []string{server.address()}}
		},
		"cluster": func(t *testing.T) (*secured, redisclient.Options) {
			t.Helper()
			server := startSecured(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)),
				"--cluster-announce-ip", "127.0.0.1", "--tls-cluster", "yes")
			testkit.Must(t, server.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
			return server, redisclient.Options{Addresses: []string{server.address()}, Topology: redisclient.Cluster}
		},
		"sentinel": func(t *testing.T) (*secured, redisclient.Options) {
			t.Helper()
			server := startSecured(t)
			sentinel := redistest.StartSentinel(t, "unsecured", server.Server)
			testkit.Must(t, sentinel.Client().Do(t.Context(), "SENTINEL", "MONITOR", "main", "127.0.0.1", server.port, 1).Err())
			address := terminate(t, server.authority.Config(t, "sentinel"), sentinel.Addr())
			return server, redisclient.Options{Addresses: []string{address}, MasterName: "main"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, o := start(t)
			trusted, other := server.authority.Config(t, "gateway"), certstest.NewAuthority(t, "other").Config(t, "gateway")
			untrusted := trusted.Clone() // trusts the server, which does not trust it
			untrusted.Certificates = other.Certificates
			var current atomic.Pointer[tls.Config]
			o.TLS = func(context.Context) *tls.Config { return current.Load() }
			current.Store(other)
			s := running(t, newClient(t, o))
			for _, refused := range []*tls.Config{other, untrusted} {
				current.Store(refused)
				if err := s.Ping(t.Context()); err == nil {
					t.Fatal("connected with certificates of another authority")
				}
			}
			current.Store(trusted)
			testkit.Eventually(t, "a connection is made with the right certificates", func() bool { return s.Ping(t.Context()) == nil })
			testkit.Eventually(t, "it is subscribed to refunds", s.Subscribed)
			current.Store(other)
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("the connection was closed: %v", err)
			}
		})
	}
}

// terminate starts a proxy that terminates TLS in front of an address, and returns its address.
func terminate(t *testing.T, config *tls.Config, to string) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	testkit.Must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { proxy(conn, to) })
		}
	})
	t.Cleanup(func() { // the clients have closed their connections
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// proxy copies between a connection and an address until one side ends.
func proxy(conn net.Conn, to string) {
	defer func() { _ = conn.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(server, conn)
		_ = server.Close()
	})
	_, _ = io.Copy(conn, server)
	_ = conn.Close()
	copying.Wait()
}

// A server without TLS may accept a connection and send nothing.
func TestHandshakeEndsAfterTheDialTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = listener.Close() }()
	client := newClient(t, redisclient.Options{
		Addresses: []string{listener.Addr().String()}, TLS: always(certstest.NewAuthority(t, "redis").Config(t, "gateway")),
		Timeout: time.Minute, DialTimeout: 20 * time.Millisecond,
	})
	start := time.Now()
	if err := client.Ping(t.Context()).Err(); err == nil || time.Since(start) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}
