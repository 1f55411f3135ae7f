package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

// The TestAttack tests are rows 24 to 26, 31 to 34, 36, 39 and 40. Each attacks its own gateway while a well-behaved client uses it. All traffic is on loopback.

// dialFrom opens a connection from a source address; "" for any.
func dialFrom(source, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: maxWait}
	if source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	return dialer.Dial("tcp", address)
}

// dialAll opens n connections within some time, and calls use with each. They are closed at the end of the test.
func dialAll(t *testing.T, n int, within time.Duration, address string, use func(net.Conn)) {
	t.Helper()
	step := max(1, n/50)
	for i := range n {
		if i%step == 0 {
			sleep(t, within*time.Duration(step)/time.Duration(n))
		}
		conn, err := dialFrom("", address)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		use(conn)
	}
}

// readResponse reads a response and its body.
func readResponse(from *bufio.Reader) (*http.Response, []byte, error) {
	got, err := http.ReadResponse(from, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	return got, body, err
}

// posting returns the header of a POST that creates an incident, without the final empty line.
func posting(token string, length int) string {
	return fmt.Sprintf("POST /v1/incidents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n", token, length)
}

// Row 24: a response that does not need the body is sent without waiting for it, and closes the connection.
func TestAttackBodiesThatNeverArrive(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(shared.address), unlimited)
	full, read := tokens(t)["full"].Text, tokens(t)["read"].Text
	strict := startGateway(t, everyService(shared.address), "rate_limit: {limits: [{requests: 1, per: 1h}]}\n")
	if status := me(t.Context(), newClient(t, nil), strict.url, full).status; status != http.StatusOK {
		t.Fatalf("got %d", status)
	}

	var slowest time.Duration
	for _, refusal := range []struct {
		status        int
		address, head string
	}{
		{401, g.socket(), "POST /v1/incidents HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"},
		{401, g.socket(), "POST /v1/incidents HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"},
		{200, g.socket(), "GET /docs/ HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n"},
		{200, g.socket(), strings.Replace(posting(full, 1), "POST /v1/incidents", "GET /v1/servers", 1)},
		{204, g.socket(), strings.Replace(posting(full, 1), "POST", "OPTIONS", 1)},
		{403, g.socket(), posting(read, 1)},
		{403, g.socket(), posting(read, 1) + "Expect: 100-continue\r\n"},
		{404, g.socket(), strings.Replace(posting(full, 1), "incidents", "nothing", 1)},
		{404, g.socket(), "POST /elsewhere HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"},
		{405, g.socket(), strings.Replace(posting(full, 1), "POST", "DELETE", 1)},
		{413, g.socket(), posting(full, 1<<20)},
		{415, g.socket(), posting(full, 1) + "Content-Type: text/plain\r\n"},
		{429, strict.socket(), posting(full, 1)},
		{405, strings.TrimPrefix(g.admin, "http://"), "POST /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n"},
		{404, strings.TrimPrefix(g.admin, "http://"), "POST /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n"},
	} {
		status, took := untilClosed(t, refusal.address, refusal.head+"\r\n")
		if status != refusal.status {
			t.Errorf("%q: got %d, want %d", refusal.head, status, refusal.status)
		}
		slowest = max(slowest, took)
	}
	within(t, "slowest response to a request without its body, until the connection is closed", slowest, 100*time.Millisecond)
}

// untilClosed sends a request without its body. It returns the status and the time until the server closed the connection.
func untilClosed(t *testing.T, address, head string) (status int, took time.Duration) {
	t.Helper()
	conn, err := dialFrom("", address)
	testkit.Must(t, err)
	defer func() { _ = conn.Close() }()
	begun := time.Now()
	testkit.Must(t, conn.SetDeadline(begun.Add(maxWait)))
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(conn)
	got, _, err := readResponse(from)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	if _, err := from.ReadByte(); !errors.Is(err, io.EOF) || !got.Close {
		t.Errorf("%q: after the response: %v, closing: %t; want EOF", head, err, got.Close)
	}
	return got.StatusCode, time.Since(begun)
}

// bodySize is the default of http.max_body_bytes.
const bodySize = 128 << 10

// validBody returns a valid body of the maximum size, whose message has the maximum length.
func validBody() string {
	body := `{"title":"t","status":"resolved","impact":"none","message":"` + strings.Repeat("ü", 10_000) + `"`
	return body + strings.Repeat(" ", bodySize-len(body)-1) + "}"
}

// worstBodies returns bodies of the maximum size that are expensive to decode, by what they contain.
func worstBodies() map[string]string {
	filled := func(begin string, element func(i int) string, end string) string {
		var b strings.Builder
		b.WriteString(begin)
		for i := 0; ; i++ {
			next := element(i)
			if b.Len()+len(next)+len(end) > bodySize {
				return b.String() + end
			}
			b.WriteString(next)
		}
	}
	repeated := func(text string) func(int) string { return func(int) string { return text } }
	return map[string]string{
		"names":          filled(`{"a":0`, func(i int) string { return fmt.Sprintf(`,"%x":0`, i) }, "}"),
		"escaped names":  filled(`{"a":0`, func(i int) string { return fmt.Sprintf(`,"\u%04x":0`, i%0xd800) }, "}"),
		"one name":       filled(`{"title":""`, repeated(`,"title":""`), "}"),
		"long names":     filled(`{"a":0`, func(i int) string { return fmt.Sprintf(`,"%01000d":0`, i) }, "}"),
		"ids":            filled(`{"componentIds":["`+unknown+`"`, repeated(`,"`+unknown+`"`), "]}"),
		"nesting":        filled(`{"title":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`,"a":[0`, repeated(",0"), "]}"),
		"escapes":        filled(`{"message":"`, repeated(`\u0000`), `"}`),
		"half pairs":     filled(`{"message":"`, repeated(`\ud800`), `"}`),
		"backslashes":    filled(`{"message":"`, repeated(`\\`), `"}`),
		"invisible text": filled(`{"message":"`, repeated("\u200b"), `"}`),
		"a number":       filled(`{"title":1`, repeated("0"), "}"),
		"no end":         filled(`{"a":[`, repeated("0,"), "0]"),
	}
}

// Row 26: a body of the maximum size costs at most three times as much CPU as a valid one, whatever it contains.
func TestAttackWorstCaseBodies(t *testing.T) {
	parallel(t)
	n := either(200, 10)
	g := startGateway(t, everyService(shared.address), unlimited)
	client := newClient(t, nil)
	cost := func(body string) (perRequest float64, response int) {
		before := g.metric(t, "process_cpu_seconds_total")
		for range n {
			status, text := postIncident(t, client, g, body)
			if status != http.StatusOK && status != http.StatusUnprocessableEntity {
				t.Fatalf("got %d %s", status, text)
			}
			response = len(text)
		}
		return (g.metric(t, "process_cpu_seconds_total") - before) / float64(n), response
	}
	cost(validBody())
	baseline, _ := cost(validBody())
	for name, body := range worstBodies() {
		worst, response := cost(body)
		what := fmt.Sprintf("%d KiB of %s: CPU time, as a multiple of the %.2f ms of a valid body", len(body)>>10, name, baseline*1000)
		report(t, what, fmt.Sprintf("%.1f", worst/baseline), "at most 3")
		if *full && worst > 3*baseline {
			t.Errorf("%s: %.1f times", name, worst/baseline)
		}
		atMost(t, fmt.Sprintf("%s: bytes of the response", name), response, 16<<10)
	}
}

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

// Rows 17 and 25: one client opens ten times the maximum number of connections; another client is still served. The first attack keeps the
// maximum open, and the gateway closes idle ones.
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
