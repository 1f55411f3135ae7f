package backendclient_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"opsgate/internal/certs"
	"opsgate/internal/certs/certstest"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// A securedService requires client certificates, and records their names.
type securedService struct {
	listener *cutting
	clients  chan string
	config   atomic.Pointer[tls.Config] // of new connections
}

// cutting is a listener that can close its connections.
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

func (s *securedService) use(t *testing.T, a *certstest.Authority) {
	t.Helper()
	config := a.Config(t, "fleet.example")
	config.NextProtos = []string{"h2"}
	s.config.Store(config)
}

func secured(t *testing.T, a *certstest.Authority) *securedService {
	t.Helper()
	s := &securedService{listener: &cutting{Listener: listen(t, "127.0.0.1:0")}, clients: make(chan string, 10)}
	s.use(t, a)
	b := &backend{getServer: func(ctx context.Context) (*fleetv1.GetServerResponse, error) {
		p, _ := peer.FromContext(ctx)
		select {
		case s.clients <- p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName:
		case <-ctx.Done(): // repeated calls
		}
		return &fleetv1.GetServerResponse{}, nil
	}}
	b.serve(t, s.listener, grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.config.Load(), nil },
	})))
	return s
}

// write writes the files of a client of the authority.
func write(t *testing.T, folder string, a *certstest.Authority, name string) *certs.ClientFiles {
	t.Helper()
	files := a.Write(t, folder, name)
	files.ServerName = "fleet.example"
	return &files
}
