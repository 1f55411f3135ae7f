package chaostest

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

// many does something on so many connections at once, which are opened within a second or two.
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

// drip sends a byte now and then until the other side closes the connection, and returns how long that took and what it said.
func drip(conn net.Conn, begin string) (time.Duration, []byte) {
	begun := time.Now()
	if _, err := io.WriteString(conn, begin); err != nil {
		return 0, nil
	}
	ended := make(chan []byte, 1)
	go func() {
		said, _ := io.ReadAll(conn)
		ended <- said
	}()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for time.Since(begun) < maxWait {
		select {
		case said := <-ended:
			return time.Since(begun), said
		case <-tick.C:
			_, _ = io.WriteString(conn, "x") // the reader hears of the end
		}
	}
	return time.Since(begun), nil
}

// A longest is the longest of some times.
type longest struct {
	sync.Mutex
	time.Duration
}

func (l *longest) take(d time.Duration) {
	l.Lock()
	defer l.Unlock()
	l.Duration = max(l.Duration, d)
}

// socket is the address of the public listener.
func (g *gateway) socket() string { return strings.TrimPrefix(g.url, "http://") }

func TestSlowHeadersTimeOut(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(shared.address), unlimited)
	v, n := newVictim(t, g, newClient(t, nil), g.url), either(2000, 200)
	var open longest
	v.checkDuring(t, fmt.Sprintf("%d slow headers", n), func() {
		onConnections(t, n, g.socket(), func(conn net.Conn) {
			lasted, _ := drip(conn, "GET /v1/me HTTP/1.1\r\nHost: slow\r\nX-Slow: ")
			open.take(lasted)
		})
	})
	within(t, "17", "until the last slow header was given up", open.Duration, 10*time.Second)
}

func TestSlowBodiesTimeOut(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(shared.address), unlimited+"http: {body_timeout: 3s, read_header_timeout: 2s}\n")
	v, n := newVictim(t, g, newClient(t, nil), g.url), either(1000, 100)
	var open longest
	said := make(chan []byte, n)
	v.checkDuring(t, fmt.Sprintf("%d slow bodies", n), func() {
		onConnections(t, n, g.socket(), func(conn net.Conn) {
			lasted, answer := drip(conn, "POST /v1/incidents HTTP/1.1\r\nHost: slow\r\nAuthorization: Bearer "+tokens(t)["full"].Text+
				"\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{")
			open.take(lasted)
			said <- answer
		})
	})
	close(said)
	byStatus := map[string]int{}
	for answer := range said {
		line, _, _ := bytes.Cut(answer, []byte("\r\n"))
		byStatus[string(line)]++
	}
	report(t, "17", "what slow bodies were answered", byStatus, "")
	if late := byStatus["HTTP/1.1 408 Request Timeout"]; late != n {
		t.Errorf("%d of %d slow bodies were answered 408", late, n)
	}
	within(t, "17", "until the last slow body was given up (3 s by configuration)", open.Duration, 10*time.Second)
}

// Clients ask for far more than they read. What waits for them waits in the kernel, and not for long.
func TestSlowReadersTimeOut(t *testing.T) {
	parallel(t)
	g := startGateway(t, everyService(shared.address), unlimited+"http: {write_timeout: 3s, request_timeout: 2s, body_timeout: 500ms}\n")
	v, n := newVictim(t, g, newClient(t, nil), g.url), either(20, 10)
	request := "GET /openapi.yaml HTTP/1.1\r\nHost: slow\r\n\r\n"
	var open longest
	v.checkDuring(t, fmt.Sprintf("%d slow readers", n), func() {
		onConnections(t, n, g.socket(), func(conn net.Conn) { open.take(askWithoutReading(t, conn, request)) })
	})
	within(t, "17", "until the last slow reader was given up (3 s by configuration)", open.Duration, 10*time.Second)
}

// askWithoutReading sends requests, more than the kernel keeps the answers of, reads nothing, and returns how long it took the other side to
// close the connection.
func askWithoutReading(t *testing.T, conn net.Conn, request string) time.Duration {
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
