package redisstore_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/tlsfiles/tlsfilestest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// A secured server speaks TLS, beside the port that a test looks in by, with those of its authority alone.
type secured struct {
	*redistest.Server

	authority *tlsfilestest.Authority
	port      int // of TLS
}

func startSecured(t *testing.T, args ...string) *secured {
	t.Helper()
	s := &secured{authority: tlsfilestest.NewAuthority(t, "redis"), port: redistest.FreePort(t)}
	files := s.authority.Write(t, t.TempDir(), "redis")
	s.Server = redistest.Start(t, append(args, "--tls-port", strconv.Itoa(s.port),
		"--tls-ca-cert-file", files.CAFile, "--tls-cert-file", files.CertFile, "--tls-key-file", files.KeyFile)...)
	return s
}

// address is that of TLS.
func (s *secured) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func always(config *tls.Config) func(context.Context) *tls.Config {
	return func(context.Context) *tls.Config { return config }
}

func TestATLSServerWithAPassword(t *testing.T) {
	server := startSecured(t, "--user", "gate", "on", ">secret", "~opsgate:*", "&opsgate:*", "+@all")
	o := redisstore.ClientOptions{
		Addresses: []string{server.address()}, TLS: always(server.authority.Config(t, "gateway")),
		Credentials: func() (string, string) { return "gate", "secret" },
	}
	s := running(t, redisstore.Options{Client: newClient(t, o)})
	d := decide(t, s, "t", specified(t))
	if err := s.Refund(t.Context(), "t", specified(t), d); err != nil || !d.Allowed {
		t.Errorf("%+v, error %v", d, err)
	}
	eventually(t, "it is subscribed to refunds", s.Subscribed)
	o.Credentials = func() (string, string) { return "gate", "guess" }
	if d, err := newStore(t, redisstore.Options{Client: newClient(t, o)}).Decide(t.Context(), "t", specified(t)); err == nil || strings.Contains(err.Error(), "guess") {
		t.Errorf("a wrong password: %+v, error %v", d, err)
	}
}

// Certificates are renewed while clients run. Whatever stands at the addresses, the connections that are made later are made with the
// new ones, and those that there are stay.
func TestAConnectionIsSecuredByWhatHoldsWhenItIsMade(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (*secured, redisstore.ClientOptions){
		"single": func(t *testing.T) (*secured, redisstore.ClientOptions) {
			t.Helper()
			server := startSecured(t)
			return server, redisstore.ClientOptions{Addresses: []string{server.address()}}
		},
		"cluster": func(t *testing.T) (*secured, redisstore.ClientOptions) {
			t.Helper()
			server := startSecured(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(redistest.FreePort(t)),
				"--cluster-announce-ip", "127.0.0.1", "--tls-cluster", "yes")
			if err := server.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
				t.Fatal(err)
			}
			return server, redisstore.ClientOptions{Addresses: []string{server.address()}, Topology: redisstore.Cluster}
		},
		"sentinel": func(t *testing.T) (*secured, redisstore.ClientOptions) {
			t.Helper()
			server := startSecured(t)
			sentinel := redistest.StartSentinel(t, "unsecured", server.Server)
			if err := sentinel.Client().Do(t.Context(), "SENTINEL", "MONITOR", "main", "127.0.0.1", server.port, 1).Err(); err != nil {
				t.Fatal(err)
			}
			address := terminate(t, server.authority.Config(t, "sentinel"), sentinel.Addr())
			return server, redisstore.ClientOptions{Addresses: []string{address}, MasterName: "main"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, o := start(t)
			known, other := server.authority.Config(t, "gateway"), tlsfilestest.NewAuthority(t, "other").Config(t, "gateway")
			stranger := known.Clone() // who knows the server, and is not known to it
			stranger.Certificates = other.Certificates
			var current atomic.Pointer[tls.Config]
			o.TLS = func(context.Context) *tls.Config { return current.Load() }
			current.Store(other)
			s := running(t, redisstore.Options{Client: newClient(t, o)})
			for _, refused := range []*tls.Config{other, stranger} {
				current.Store(refused)
				if err := s.Ping(t.Context()); err == nil {
					t.Fatal("a connection was made with the certificates of others")
				}
			}
			current.Store(known)
			eventually(t, "a connection is made with the right ones", func() bool { return s.Ping(t.Context()) == nil })
			eventually(t, "it is subscribed to refunds", s.Subscribed)
			current.Store(other)
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("the connection did not stay: %v", err)
			}
		})
	}
}

// terminate speaks TLS in front of what does not, and returns where.
func terminate(t *testing.T, config *tls.Config, to string) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { pass(conn, to) })
		}
	})
	t.Cleanup(func() { // the clients have closed their connections
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// pass passes on what is said on a connection, until one side ends.
func pass(conn net.Conn, to string) {
	defer func() { _ = conn.Close() }()
	behind, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		_, _ = io.Copy(behind, conn)
		_ = behind.Close()
	})
	_, _ = io.Copy(conn, behind)
	_ = conn.Close()
	passing.Wait()
}

// Who takes a connection and says nothing, as a server does that does not speak TLS, costs the time-out of making one.
func TestAHandshakeIsAwaitedForTheDialTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	client := newClient(t, redisstore.ClientOptions{
		Addresses: []string{silent.Addr().String()}, TLS: always(tlsfilestest.NewAuthority(t, "redis").Config(t, "gateway")),
		Timeout: time.Minute, DialTimeout: 20 * time.Millisecond,
	})
	start := time.Now()
	if err := client.Ping(t.Context()).Err(); err == nil || time.Since(start) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}
