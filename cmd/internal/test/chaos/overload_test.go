package chaos

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"opsgate/cmd/internal/test/testkit"
)

// victim is a gateway under attack, with another client that must not be affected.
type victim struct {
	*gateway

	other     load
	baseline  time.Duration // p99 of the other client without the attack
	rss       float64
	maxFailed float64 // ratio of the other client's requests
	row       string
	maxMemory int // growth in MB
	maxFactor int // growth of the other client's p99; 0 for no bound of times
}

func newVictim(t *testing.T, g *gateway, client *http.Client) *victim {
	t.Helper()
	v := &victim{gateway: g, row: "17", maxFactor: 2, maxMemory: maxMemoryGrowth(), other: load{
		gateways: []*gateway{g}, client: client, rate: either(200.0, 50.0), clients: 16,
	}}
	v.other.during(t, time.Second)
	v.baseline = v.other.during(t, either(3*time.Second, time.Second)).percentile(.99)
	v.rss = g.metric(t, "process_resident_memory_bytes")
	return v
}

// slack is added to bounds on time in the short form, which may run on a busy machine.
const slack = 10 * time.Second

// atMostDoubled checks that a p99 at most doubled.
func atMostDoubled(t *testing.T, row, what string, got, baseline time.Duration) {
	t.Helper()
	atMostTimes(t, row, what, got, baseline, 2)
}

// atMostTimes checks a p99 against a multiple of its baseline, which counts as at least 10 ms: shorter times depend mostly on the load
// of the machine. The short form only reports it.
func atMostTimes(t *testing.T, row, what string, got, baseline time.Duration, times int) {
	t.Helper()
	if !*full || times == 0 {
		report(t, row, what, tenths(got), "not checked")
		return
	}
	within(t, row, what, got, time.Duration(times)*max(baseline, 10*time.Millisecond))
}

// maxMemoryGrowth returns the allowed growth of a gateway in MB. In the short form the gateway may run with the race detector, which
// multiplies its memory.
func maxMemoryGrowth() int { return either(100, 1000) }

// observation has the measurements of a program during an attack.
type observation struct {
	rss     float64       // maximum
	slowest time.Duration // response of the admin listener
	err     error         // of the last failed request
}

// watch polls the metrics at an admin listener until it is stopped.
func watch(t *testing.T, admin string) (stop func() observation) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var seen observation
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			begun := time.Now()
			rss, err := residentMemory(t.Context(), admin)
			if err != nil {
				seen.err = err
			}
			seen.rss, seen.slowest = max(seen.rss, rss), max(seen.slowest, time.Since(begun))
		}
	})
	return func() observation {
		cancel()
		watching.Wait()
		return seen
	}
}

func residentMemory(ctx context.Context, admin string) (float64, error) {
	page := ask(ctx, http.DefaultClient, http.MethodGet, admin+"/metrics", "", "")
	if page.err != nil {
		return 0, page.err
	}
	for line := range strings.Lines(string(page.body)) {
		if text, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			return strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
	}
	return 0, errors.New("no resident memory among the metrics")
}

// checkDuring runs an attack and checks that the other client is not affected.
func (v *victim) checkDuring(t *testing.T, what string, done func()) {
	t.Helper()
	stopOther, stopWatching := v.other.start(t), watch(t, v.admin)
	done()
	others, seen := stopOther(), stopWatching()
	lost := others.failed()
	atMost(t, v.row, fmt.Sprintf("%s: of %d requests of another client, failed", what, len(others)), len(lost), int(v.maxFailed*float64(len(others))))
	atMostTimes(t, v.row, fmt.Sprintf("%s: p99 of another client (%v without)", what, tenths(v.baseline)), others.percentile(.99), v.baseline, v.maxFactor)
	if v.maxFactor > 0 {
		within(t, v.row, what+": slowest response of the admin listener", seen.slowest, time.Second)
	}
	atMost(t, v.row, what+": growth of resident memory, MB", int(seen.rss-v.rss)/1e6, v.maxMemory)
	if seen.err != nil {
		t.Error(seen.err)
	}
}

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

// resetter sends HTTP/2 requests and resets their streams at once.
type resetter struct {
	address string
	roots   *x509.CertPool
	header  []byte // of each request, encoded without the dynamic table
}

func newResetter(t *testing.T, address string, roots *x509.CertPool, token string) *resetter {
	t.Helper()
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for _, field := range [][2]string{
		{":method", "GET"}, {":scheme", "https"}, {":authority", "gateway"}, {":path", unknownServer},
		{"authorization", "Bearer " + token},
	} {
		testkit.Must(t, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1], Sensitive: true}))
	}
	return &resetter{address: address, roots: roots, header: header.Bytes()}
}

// connection resets streams of a new connection, and returns how many it sent before the connection was closed.
func (r *resetter) connection(t *testing.T, streams int) (done int) {
	t.Helper()
	conn, err := tls.Dial("tcp", r.address, &tls.Config{RootCAs: r.roots, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	testkit.Must(t, err)
	defer func() { _ = conn.Close() }()
	out := bufio.NewWriter(conn)
	framer := http2.NewFramer(out, bufio.NewReader(conn))
	over := make(chan struct{})
	go func() {
		defer close(over)
		awaitPing(framer)
	}()
	_, err = out.WriteString(http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings())
	for ; err == nil && done < streams; done++ {
		id := uint32(2*done + 1)
		err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.header, EndStream: true, EndHeaders: true})
		err = errors.Join(err, framer.WriteRSTStream(id, http2.ErrCodeCancel))
		if done%10 == 0 {
			err = errors.Join(err, out.Flush())
		}
		if done%500 == 0 {
			sleep(t, 100*time.Millisecond) // leaves CPU time to the gateway
		}
	}
	if err == nil && framer.WritePing(false, [8]byte{}) == nil && out.Flush() == nil {
		<-over // all frames are processed, or the connection is closed
	}
	return done
}

// awaitPing reads until a ping is acknowledged or the connection is closed.
func awaitPing(framer *http2.Framer) {
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			return
		}
	}
}

func TestResetStreamsAreCheap(t *testing.T) {
	parallel(t)
	public := newPublicTLS(t)
	g := startGateway(t, everyService(shared.address), unlimited+public.config())
	v, n := newVictim(t, g, newClient(t, public.roots())), either(50_000, 3000)
	r := newResetter(t, g.socket(), public.roots(), tokens(t)["read"].Text)
	connections := 0
	v.checkDuring(t, fmt.Sprintf("%d stream resets", n), func() {
		for done := 0; done < n; connections++ {
			done += r.connection(t, n-done)
		}
	})
	report(t, "17", "connections used, because the gateway closed them", connections, "")
}
