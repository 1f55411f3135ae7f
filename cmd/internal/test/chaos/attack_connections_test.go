package chaos

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Row 25: one client opens ten times the maximum number of connections; another client is still served.
func TestAttackConnectionFlood(t *testing.T) {
	parallel(t)
	limit := either(1000, 100)
	public := newPublicTLS(t)
	for _, attack := range []struct {
		name   string
		secure bool
		begin  func(net.Conn)
	}{
		{"missing bodies", false, write("POST /v1/incidents HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n")},
		{"incomplete headers", false, write("GET /v1/me HTTP/1.1\r\nHost: h\r\nX-Slow: ")},
		{"unread responses", false, func(conn net.Conn) {
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			write(strings.Repeat("GET /docs/try/swagger-ui-bundle.js HTTP/1.1\r\nHost: h\r\n\r\n", 3))(conn)
		}},
		{"missing handshakes", true, func(net.Conn) {}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			config := unlimited + fmt.Sprintf("http: {max_connections: %d}\n", limit)
			client := newClient(t, nil)
			if attack.secure {
				config += public.config()
				client = newClient(t, public.roots())
			}
			g := startGateway(t, everyService(shared.address), config)
			v := newVictim(t, g, client)
			v.row, v.maxFactor, v.maxFailed, v.maxMemory = "25", 3, .01, either(150, 1000)
			v.checkDuring(t, fmt.Sprintf("%d connections, %s", 10*limit, attack.name), func() {
				defer flood(t, g.socket(), 10*limit, attack.begin)()
				sleep(t, either(3*time.Second, time.Second))
				newcomer := &http.Client{Transport: withoutKeepAlives(client.Transport), Timeout: maxWait}
				if status := me(t.Context(), newcomer, g.url, tokens(t)["full"].Text).status; status != http.StatusOK {
					t.Errorf("a new client: got %d", status)
				}
			})
			atMost(t, "25", attack.name+": connections open at the end", int(g.metric(t, "opsgate_http_connections_open")), limit)
		})
	}
}

func write(text string) func(net.Conn) {
	return func(conn net.Conn) { _, _ = io.WriteString(conn, text) } // fails if the connection is closed
}

// flood opens n connections within about five seconds and calls begin on each. It returns a function that closes them. It is slow
// enough to leave CPU time to the gateway on the same machine.
func flood(t *testing.T, address string, n int, begin func(net.Conn)) (closeAll func()) {
	t.Helper()
	conns := make([]net.Conn, 0, n)
	for i := range n {
		if i%(n/50) == 0 {
			sleep(t, 100*time.Millisecond)
		}
		conn, err := dialFrom("", address)
		if err != nil {
			t.Error(err)
			break
		}
		begin(conn)
		conns = append(conns, conn)
	}
	return func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}
