package httpserver

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"opsgate/internal/testkit"
)

// connections are a set of connections on loopback, with a limit of their input.
type connections struct {
	*connectionSet

	listener *net.TCPListener
}

func newConnections(t *testing.T, limit int64) *connections {
	t.Helper()
	set := newConnectionSet(100, limit)
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return &connections{set, listener}
}

// connect returns both ends of a connection.
func (l *connections) connect(t *testing.T) (*connection, net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.listener.Addr().String())
	testkit.Must(t, err)
	accepted, err := l.listener.AcceptTCP()
	testkit.Must(t, err)
	server := l.add(accepted)
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return server, client
}

// receive has the connection read n bytes of its client.
func receive(t *testing.T, server *connection, client net.Conn, n int) error {
	t.Helper()
	if _, err := client.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	for buffer := make([]byte, n); n > 0; {
		got, err := server.Read(buffer[:n])
		if err != nil {
			return err
		}
		n -= got
	}
	return nil
}

func (l *connections) mustHave(t *testing.T, input, closed int) {
	t.Helper()
	if got, _, n := l.inputStats(); got != input || n != uint64(closed) {
		t.Errorf("input of %d bytes and %d closed, want %d and %d", got, n, input, closed)
	}
}

func TestConnectionsWithTheOldestInputAreClosedPastTheLimit(t *testing.T) {
	const each = 4 << 10
	l := newConnections(t, 4*each)
	idle, idleClient := l.connect(t)
	testkit.Must(t, receive(t, idle, idleClient, freeInput))
	var servers []*connection
	for range 5 {
		server, client := l.connect(t)
		servers = append(servers, server)
		testkit.Must(t, receive(t, server, client, freeInput+each))
	}
	l.mustHave(t, 3*each, 2)
	for i, server := range append(servers, idle) {
		_, open := l.open[server]
		if want := i >= 2; open != want {
			t.Errorf("connection %d: open is %t", i, open)
		}
	}
	for _, server := range servers[2:] {
		_ = server.Close()
	}
	l.mustHave(t, 0, 2)
}

func TestARequestEndsTheInputOfItsConnection(t *testing.T) {
	l := newConnections(t, 1<<20)
	server, client := l.connect(t)
	testkit.Must(t, receive(t, server, client, 3*freeInput))
	l.mustHave(t, 2*freeInput, 0)
	handler := resetInputAtRequest(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		l.mustHave(t, 0, 0)
		if err := receive(t, server, client, 3*freeInput); err != nil { // a body
			t.Error(err)
		}
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(connectionContext(t.Context(), server), "GET", "/", http.NoBody))
	l.mustHave(t, 0, 0)
}

func TestALongClientHelloIsRefused(t *testing.T) {
	l := newConnections(t, 1<<20)
	config := resetInputAtHello(&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }})
	server, client := l.connect(t)
	server.awaitsHello = true
	if _, err := config.GetConfigForClient(&tls.ClientHelloInfo{Conn: server}); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, server, client, 2*maxHello); err != nil {
		t.Errorf("after the ClientHello: %v", err)
	}
	server, client = l.connect(t)
	server.awaitsHello = true
	if err := receive(t, server, client, 2*maxHello); !errors.Is(err, errLongHello) {
		t.Errorf("got %v", err)
	}
}
