package chaos

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// onConnections calls do concurrently on n connections, which it opens within about a second.
func onConnections(t *testing.T, n int, address string, do func(net.Conn)) {
	t.Helper()
	var busy sync.WaitGroup
	for i := range n {
		if i%(n/10) == 0 {
			sleep(t, 100*time.Millisecond)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			break
		}
		busy.Go(func() {
			defer func() { _ = conn.Close() }()
			do(conn)
		})
	}
	busy.Wait()
}

// drip sends a byte every 500 ms until the server closes the connection. It returns the time until then and the response.
func drip(conn net.Conn, begin string) (time.Duration, []byte) {
	begun := time.Now()
	if _, err := io.WriteString(conn, begin); err != nil {
		return 0, nil
	}
	ended := make(chan []byte, 1)
	go func() {
		response, _ := io.ReadAll(conn)
		ended <- response
	}()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for time.Since(begun) < maxWait {
		select {
		case response := <-ended:
			return time.Since(begun), response
		case <-tick.C:
			_, _ = io.WriteString(conn, "x") // the reader returns when the connection is closed
		}
	}
	return time.Since(begun), nil
}

// longest is the maximum of durations. It is safe for concurrent use.
type longest struct {
	sync.Mutex
	time.Duration
}

func (l *longest) add(d time.Duration) {
	l.Lock()
	defer l.Unlock()
	l.Duration = max(l.Duration, d)
}

// socket returns the address of the public listener.
func (g *gateway) socket() string {
	return strings.TrimPrefix(strings.TrimPrefix(g.url, "http://"), "https://")
}

func TestSlowHeadersTimeOut(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(shared.address), unlimited)
	v, n := newVictim(t, g, newClient(t, nil)), either(2000, 200)
	var open longest
	v.checkDuring(t, fmt.Sprintf("%d slow headers", n), func() {
		onConnections(t, n, g.socket(), func(conn net.Conn) {
			lasted, _ := drip(conn, "GET /v1/me HTTP/1.1\r\nHost: slow\r\nX-Slow: ")
			open.add(lasted)
		})
	})
	within(t, "17", "until the last connection with a slow header was closed", open.Duration, 10*time.Second)
}

func TestSlowBodiesTimeOut(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(shared.address), unlimited+"http: {body_timeout: 3s, read_header_timeout: 2s}\n")
	v, n := newVictim(t, g, newClient(t, nil)), either(1000, 100)
	var open longest
	responses := make(chan []byte, n)
	v.checkDuring(t, fmt.Sprintf("%d slow bodies", n), func() {
		onConnections(t, n, g.socket(), func(conn net.Conn) {
			lasted, response := drip(conn, "POST /v1/incidents HTTP/1.1\r\nHost: slow\r\nAuthorization: Bearer "+tokens(t)["full"].Text+
				"\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{")
			open.add(lasted)
			responses <- response
		})
	})
	close(responses)
	byStatus := map[string]int{}
	for response := range responses {
		line, _, _ := bytes.Cut(response, []byte("\r\n"))
		byStatus[string(line)]++
	}
	report(t, "17", "responses to slow bodies", byStatus, "")
	if late := byStatus["HTTP/1.1 408 Request Timeout"]; late != n {
		t.Errorf("%d of %d slow bodies were answered 408", late, n)
	}
	within(t, "17", "until the last connection with a slow body was closed (3 s by configuration)", open.Duration, 10*time.Second)
}

// Clients send requests and do not read the responses.
func TestSlowReadersTimeOut(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	g := startGateway(t, everyService(shared.address), unlimited+"http: {write_timeout: 3s, request_timeout: 2s, body_timeout: 500ms}\n")
	v, n := newVictim(t, g, newClient(t, nil)), either(20, 10)
	request := "GET /openapi.yaml HTTP/1.1\r\nHost: slow\r\n\r\n"
	var open longest
	v.checkDuring(t, fmt.Sprintf("%d slow readers", n), func() {
		onConnections(t, n, g.socket(), func(conn net.Conn) { open.add(sendWithoutReading(t, conn, request)) })
	})
	within(t, "17", "until the last slow reader's connection was closed (3 s by configuration)", open.Duration, 10*time.Second)
}

// sendWithoutReading sends requests without reading the responses, and returns the time until the server closed the connection.
func sendWithoutReading(t *testing.T, conn net.Conn, request string) time.Duration {
	t.Helper()
	begun := time.Now()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Error(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for err := error(nil); err == nil && time.Since(begun) < maxWait; <-tick.C {
		_, err = io.WriteString(conn, request)
	}
	return time.Since(begun)
}
