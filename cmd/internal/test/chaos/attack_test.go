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
)

// The TestAttack tests are rows 24 to 29 and 31 to 36. Each attacks its own gateway while a well-behaved client uses it. All traffic is on loopback.

// dialFrom opens a connection from a source address; "" for any.
func dialFrom(source, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: maxWait}
	if source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	return dialer.Dial("tcp", address)
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

// Row 24: a refusal is sent without waiting for the body, and closes the connection.
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
		{403, g.socket(), posting(read, 1)},
		{404, g.socket(), strings.Replace(posting(full, 1), "incidents", "nothing", 1)},
		{404, g.socket(), "POST /elsewhere HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"},
		{405, g.socket(), strings.Replace(posting(full, 1), "POST", "DELETE", 1)},
		{413, g.socket(), posting(full, 1<<20)},
		{415, g.socket(), posting(full, 1) + "Content-Type: text/plain\r\n"},
		{429, strict.socket(), posting(full, 1)},
		{405, strings.TrimPrefix(g.admin, "http://"), "POST /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n"},
	} {
		status, took := untilClosed(t, refusal.address, refusal.head+"\r\n")
		if status != refusal.status {
			t.Errorf("%q: got %d, want %d", refusal.head, status, refusal.status)
		}
		slowest = max(slowest, took)
	}
	within(t, "24", "slowest refusal of a request without its body, until the connection is closed", slowest, 100*time.Millisecond)
}

// untilClosed sends a request without its body. It returns the status and the time until the server closed the connection.
func untilClosed(t *testing.T, address, head string) (status int, took time.Duration) {
	t.Helper()
	conn, err := dialFrom("", address)
	must(t, err)
	defer func() { _ = conn.Close() }()
	begun := time.Now()
	must(t, conn.SetDeadline(begun.Add(maxWait)))
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(conn)
	got, _, err := readResponse(from)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("%q: after the response: %v, want EOF", head, err)
	}
	return got.StatusCode, time.Since(begun)
}
