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

// The TestAttack tests are rows 25, 31 to 34, 36, 39 and 40. Each attacks its own gateway while a
// well-behaved client uses it. All traffic is on loopback.

// dialAll opens n connections within some time, and calls use with each. They are closed at the end
// of the test.
func dialAll(t *testing.T, n int, within time.Duration, address string, use func(net.Conn)) {
	t.Helper()
	step := max(1, n/50)
	for i := range n {
		if i%step == 0 {
			sleep(t, within*time.Duration(step)/time.Duration(n))
		}
		conn, err := net.DialTimeout("tcp", address, maxWait)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		use(conn)
	}
}

// bodySize is the default of http.max_body_bytes.
const bodySize = 128 << 10

func postIncident(t *testing.T, client *http.Client, g *gateway, body string) (status int, content []byte) {
	t.Helper()
	return postTo(t, client, g.url+"/v1/incidents", body)
}

// postTo sends a body with the token "full".
func postTo(t *testing.T, client *http.Client, url, body string) (status int, content []byte) {
	t.Helper()
	a := mustAsk(t, client, http.MethodPost, url, tokens(t)["full"].Text, body)
	return a.status, a.body
}

// Rows 17 and 25: one client opens ten times the maximum number of connections; another client is
// still served. The first attack keeps the maximum open, and the gateway closes idle ones.
func TestAttackConnectionFlood(t *testing.T) {
	parallel(t)
	limit := either(1000, 100)
	for _, attack := range someOf([]struct {
		name   string
		public *publicTLS
		begin  func(net.Conn)
		memory int // MB
	}{
		{"Idle", nil, write("GET /v1/me HTTP/1.1\r\nHost: h\r\n\r\n"), 100},
		{"missing bodies", nil, write("POST /v1/incidents HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n"), 150},
		{"incomplete headers", nil, write("GET /v1/me HTTP/1.1\r\nHost: h\r\nX-Slow: "), 150},
		{"unread responses", nil, func(conn net.Conn) {
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			write(strings.Repeat("GET /openapi.yaml HTTP/1.1\r\nHost: h\r\n\r\n", 50))(conn)
		}, 150},
		{"missing handshakes", newPublicTLS(t), func(net.Conn) {}, 150},
	}) {
		t.Run(attack.name, func(t *testing.T) {
			parallel(t)
			v := startVictim(t, everyService(shared.address), attack.public, fmt.Sprintf("http: {max_connections: %d}\n", limit))
			v.maxFactor, v.maxFailed, v.maxMemory = 3, .01, either(attack.memory, 1000)
			files := func() int { return int(v.metric(t, "process_open_fds")) }
			before, held := files(), 0
			v.checkDuring(t, fmt.Sprintf("%d connections, %s", 10*limit, attack.name), func() {
				opened := 0
				dialAll(t, 10*limit, 5*time.Second, v.socket(), func(conn net.Conn) { // slow enough to leave CPU time to the gateway
					attack.begin(conn)
					if opened++; opened%(limit/5) == 0 {
						held = max(held, files()-before)
					}
				})
				sleep(t, either(3*time.Second, time.Second))
				newcomer := &http.Client{Transport: withoutKeepAlives(v.other.client.Transport), Timeout: maxWait}
				if status := me(t.Context(), newcomer, v.url, tokens(t)["full"].Text).status; status != http.StatusOK {
					t.Errorf("a new client: got %d", status)
				}
			})
			atMost(t, attack.name+": connections open at the end", int(v.metric(t, "opsgate_http_connections_open")), limit)
			// Connections that are being accepted or closed count for a moment.
			atMost(t, fmt.Sprintf("%s: additional file descriptors with a maximum of %d connections", attack.name, limit), held, limit+limit/10)
			if attack.name == "Idle" && held < limit/2 {
				t.Errorf("only %d connections were held", held)
			}
		})
	}
}

func write(text string) func(net.Conn) {
	return func(conn net.Conn) { _, _ = io.WriteString(conn, text) } // fails if the connection is closed
}
