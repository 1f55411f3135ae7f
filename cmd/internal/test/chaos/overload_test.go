package chaos

import (
	"context"
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

	"opsgate/internal/testkit"
)

// victim is a gateway under attack, with another client that must not be affected.
type victim struct {
	*gateway

	other     load
	baseline  time.Duration // p99 of the other client without the attack
	rss       float64
	maxFailed float64 // ratio of the other client's requests
	maxMemory int     // growth in MB
	maxFactor int     // growth of the other client's p99; 0 for no bound of times
}

// startVictim runs a gateway in front of the services, with TLS if public is not nil.
func startVictim(t *testing.T, upstreams services, public *publicTLS, config string, variables ...string) *victim {
	t.Helper()
	var roots *x509.CertPool
	if config += unlimited; public != nil {
		config, roots = config+public.config(), public.roots()
	}
	g := startGateway(t, upstreams, config, variables...)
	v := &victim{gateway: g, maxFactor: 2, maxMemory: maxMemoryGrowth(), other: load{
		gateways: []*gateway{g}, client: newClient(t, roots), rate: either(200.0, 50.0), clients: 16,
	}}
	v.other.during(t, time.Second)
	v.baseline = v.other.during(t, either(3*time.Second, time.Second)).percentile(.99)
	v.rss = g.metric(t, "process_resident_memory_bytes")
	return v
}

// slack is added to bounds on time in the short form, which may run on a busy machine.
const slack = 10 * time.Second

// atMostTimes checks a p99 against a multiple of its baseline, which counts as at least 10 ms:
// shorter times depend mostly on the load of the machine. The short form only reports it.
func atMostTimes(t *testing.T, what string, got, baseline time.Duration, times int) {
	t.Helper()
	if !*full || times == 0 {
		report(t, what, tenths(got), "not checked")
		return
	}
	within(t, what, got, time.Duration(times)*max(baseline, 10*time.Millisecond))
}

// maxMemoryGrowth returns the allowed growth of a gateway in MB. In the short form the gateway may
// run with the race detector, which multiplies its memory.
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
	atMost(t, fmt.Sprintf("%s: of %d requests of another client, failed", what, len(others)), len(lost), int(v.maxFailed*float64(len(others))))
	atMostTimes(t, fmt.Sprintf("%s: p99 of another client (%v without)", what, tenths(v.baseline)), others.percentile(.99), v.baseline, v.maxFactor)
	if v.maxFactor > 0 {
		within(t, what+": slowest response of the admin listener", seen.slowest, time.Second)
	}
	atMost(t, what+": growth of resident memory, MB", int(seen.rss-v.rss)/1e6, v.maxMemory)
	if seen.err != nil {
		t.Error(seen.err)
	}
}

// drip sends a byte every 500 ms until the server closes the connection.
func drip(conn net.Conn, begin string) {
	_, err := io.WriteString(conn, begin)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(ended)
	}()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(maxWait); err == nil && time.Now().Before(end); {
		select {
		case <-ended:
			return
		case <-tick.C:
			_, _ = io.WriteString(conn, "x") // the reader returns when the connection is closed
		}
	}
}

// socket returns the address of the public listener.
func (g *gateway) socket() string {
	return strings.TrimPrefix(strings.TrimPrefix(g.url, "http://"), "https://")
}

// slowClients are connections whose clients send or read slowly.
type slowClients struct {
	what   string
	n      int
	config string
	do     func(net.Conn) // uses a connection until the gateway closes it
}

// check checks that the gateway closes the connections in time, and that another client is not
// affected.
func (s slowClients) check(t *testing.T) {
	t.Helper()
	v := startVictim(t, everyService(shared.address), nil, s.config)
	var mu sync.Mutex
	var longest time.Duration
	v.checkDuring(t, fmt.Sprint(s.n, " ", s.what), func() {
		var using sync.WaitGroup
		dialAll(t, s.n, time.Second, v.socket(), func(conn net.Conn) {
			using.Go(func() {
				begun := time.Now()
				s.do(conn)
				_ = conn.Close()
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(begun))
			})
		})
		using.Wait()
	})
	within(t, "until the last connection was closed: "+s.what, longest, 10*time.Second)
}

func TestSlowHeadersTimeOut(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	slowClients{"slow headers", either(2000, 200), "", func(conn net.Conn) {
		drip(conn, "GET /v1/me HTTP/1.1\r\nHost: slow\r\nX-Slow: ")
	}}.check(t)
}

// Clients send requests and do not read the responses.
func TestSlowReadersTimeOut(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	// In the short form they are long, for the other client on a busy machine, and below the 5 s
	// that any anonymous response has.
	timeout, toAnswer := either(3*time.Second, 4800*time.Millisecond), either(2*time.Second, 4*time.Second)
	config := fmt.Sprintf("http: {write_timeout: %v, request_timeout: %v, body_timeout: 500ms}\nauthn: {lookup_timeout: 1s}\n", timeout, toAnswer)
	slowClients{fmt.Sprintf("slow readers, %v by configuration", timeout), either(20, 10), config, func(conn net.Conn) {
		sendWithoutReading(t, conn, "GET /openapi.yaml HTTP/1.1\r\nHost: slow\r\n\r\n")
	}}.check(t)
}

// sendWithoutReading sends requests without reading the responses, until the server closes the
// connection.
func sendWithoutReading(t *testing.T, conn net.Conn, request string) {
	t.Helper()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Error(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(maxWait)
	for err := error(nil); err == nil && time.Now().Before(end); <-tick.C {
		_, err = io.WriteString(conn, request)
	}
}

// resetStreams sends requests over a new connection and resets their streams at once. It returns
// how many it sent before the connection was closed.
func resetStreams(t *testing.T, address string, roots *x509.CertPool, header []byte, streams int) (done int) {
	t.Helper()
	n, err := newNonreader(address, roots)
	testkit.Must(t, err)
	defer n.close()
	for err = nil; err == nil && done < streams; done++ {
		err = n.request(header, 1, func(stream uint32) error { return n.framer.WriteRSTStream(stream, http2.ErrCodeCancel) })
		if done%500 == 0 {
			sleep(t, 100*time.Millisecond) // leaves CPU time to the gateway
		}
	}
	if err == nil {
		n.awaitPing() // all frames are processed, or the connection is closed
	}
	return done
}

func TestResetStreamsAreCheap(t *testing.T) {
	parallel(t)
	public := newPublicTLS(t)
	v, n := startVictim(t, everyService(shared.address), public, ""), either(50_000, 3000)
	header := headerBlock(unknownServer, "authorization", "Bearer "+tokens(t)["read"].Text)
	connections := 0
	v.checkDuring(t, fmt.Sprintf("%d stream resets", n), func() {
		for done := 0; done < n; connections++ {
			done += resetStreams(t, v.socket(), public.roots(), header, n-done)
		}
	})
	report(t, "connections used, because the gateway closed them", connections, "")
}
