package chaos

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// memoryLimit is the Go memory limit of a gateway in a container of 512 MiB.
const memoryLimit = "GOMEMLIMIT=460MiB"

// A nonreader is an HTTP/2 connection whose client reads frames but opens no flow control window,
// so no body can be sent to it.
type nonreader struct {
	conn  net.Conn
	ended chan struct{} // closed when the connection is
	acked chan struct{} // closed at the acknowledgment of a ping

	mu     sync.Mutex // of the writer
	out    *bufio.Writer
	framer *http2.Framer
	next   uint32 // stream id
}

func newNonreader(address string, roots *x509.CertPool) (*nonreader, error) {
	dialer := &net.Dialer{Timeout: maxWait}
	conn, err := tls.DialWithDialer(dialer, "tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	n := &nonreader{conn: conn, ended: make(chan struct{}), acked: make(chan struct{}), out: bufio.NewWriter(conn), next: 1}
	n.framer = http2.NewFramer(n.out, bufio.NewReader(conn))
	_, err = n.out.WriteString(http2.ClientPreface)
	err = errors.Join(err, n.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), n.out.Flush())
	go n.read()
	return n, err
}

// read answers pings until the connection is closed.
func (n *nonreader) read() {
	defer close(n.ended)
	for {
		frame, err := n.framer.ReadFrame()
		if err != nil {
			return
		}
		switch ping, ok := frame.(*http2.PingFrame); {
		case ok && ping.IsAck():
			close(n.acked)
		case ok:
			n.ping(true, ping.Data)
		}
	}
}

// ping sends a ping or its acknowledgment, unless the connection is closed.
func (n *nonreader) ping(ack bool, data [8]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = errors.Join(n.framer.WritePing(ack, data), n.out.Flush())
}

// awaitPing sends a ping and waits for its acknowledgment, or for the end of the connection. It may
// be called once.
func (n *nonreader) awaitPing() {
	n.ping(false, [8]byte{})
	select {
	case <-n.acked:
	case <-n.ended:
	}
}

// request opens streams with a request each, and calls then after each. It does not wait for
// responses.
func (n *nonreader) request(header []byte, streams int, then ...func(stream uint32) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range streams {
		err := n.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: n.next, BlockFragment: header, EndStream: true, EndHeaders: true})
		for _, do := range then {
			err = errors.Join(err, do(n.next))
		}
		if err != nil {
			return err
		}
		n.next += 2
	}
	return n.out.Flush()
}

func (n *nonreader) close() {
	_ = n.conn.Close()
	<-n.ended
}

// headerBlock returns the encoded header of a GET, with more fields given as names and values.
func headerBlock(path string, more ...string) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields := append([]string{":method", "GET", ":scheme", "https", ":authority", "gateway", ":path", path}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}) // a bytes.Buffer returns no errors
	}
	return block.Bytes()
}

// extraFields returns the names and values of n fields of that size.
func extraFields(n, size int) (fields []string) {
	for i := range n {
		fields = append(fields, "x-"+strconv.Itoa(i), strings.Repeat("v", size))
	}
	return fields
}

// Row 31: requests without a token over HTTP/2, whose responses cannot be sent because their window
// is 0.
func TestAttackUnreadStreams(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	connections, streams := either(600, 20), either(100, 50)
	public := newPublicTLS(t)
	v := startVictim(t, everyService(shared.address), public, "", memoryLimit)
	v.maxFailed, v.maxFactor, v.maxMemory = .01, 0, either(134, 1000)
	attackers := make([]*nonreader, connections)
	for i := range attackers {
		n, err := newNonreader(v.socket(), public.roots())
		testkit.Must(t, err)
		t.Cleanup(n.close)
		attackers[i] = n
	}
	header := headerBlock("/v1/me", extraFields(300, 1)...)
	sleep(t, 2*time.Second)
	v.rss = v.metric(t, "process_resident_memory_bytes")
	report(t, fmt.Sprintf("resident memory with %d idle connections, MB", connections), int(v.rss/1e6), "")
	v.checkDuring(t, fmt.Sprintf("%d streams with window 0 and 300 headers", connections*streams), func() {
		var sending sync.WaitGroup
		for _, n := range attackers {
			sending.Go(func() { _ = n.request(header, streams) }) // fails if the gateway closes the connection
		}
		sending.Wait()
		sleep(t, either(15*time.Second, 3*time.Second))
	})
	closed := 0
	for _, n := range attackers {
		select {
		case <-n.ended:
			closed++
		default:
		}
	}
	report(t, "connections that the gateway closed", closed, "")
	v.checkUnwritten(t)
}

// checkUnwritten reports what was cut off, and checks that other requests do not wait for it.
func (v *victim) checkUnwritten(t *testing.T) {
	t.Helper()
	for _, cause := range []string{"token", "anonymous", "network", "total", "deadline"} {
		report(t, "responses cut off: "+cause, v.metric(t, `opsgate_http_responses_cut_off_total{cause="`+cause+`"}`), "")
	}
	atMost(t, "unwritten responses at the end, MB", int(v.metric(t, "opsgate_http_unwritten_response_bytes")/1e6),
		int(v.metric(t, "opsgate_http_unwritten_response_limit_bytes")/1e6))
}

// startLargeLists starts services whose lists of servers have 8 MB.
func startLargeLists(t *testing.T) (address string) {
	t.Helper()
	s := servicestest.Start(t)
	s.Servers = []*fleetv1.Server{{Id: unknown, Name: strings.Repeat("n", 8_000_000), CreatedAt: timestamppb.Now()}}
	return s.Address
}

// Row 32: ten tokens at the default rate do not read responses of 8 MB.
func TestAttackUnreadResponses(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	public := newPublicTLS(t)
	behind := everyService(shared.address)
	behind.fleet = startLargeLists(t)
	tokens := createTokens(t, shared.data, either(10, 3))
	for name, sender := range map[string]func(t *testing.T, address, token string) func() error{
		"HTTP/1.1": func(t *testing.T, address, token string) func() error {
			t.Helper()
			return func() error { return sendUnread(t, address, public.roots(), token) }
		},
		"HTTP/2": func(t *testing.T, address, token string) func() error {
			t.Helper()
			n, err := newNonreader(address, public.roots())
			testkit.Must(t, err)
			t.Cleanup(n.close)
			header := headerBlock("/v1/servers", "authorization", "Bearer "+token)
			return func() error { return n.request(header, 1) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			v := startVictim(t, behind, public, "", memoryLimit)
			v.maxFailed, v.maxFactor, v.maxMemory = .01, 0, 1000 // most of it is for responses that are being made
			v.other.paths = []string{"/v1/me"}                   // calls no service: the one of the lists is busy with them
			senders := make([]func() error, len(tokens))
			for i, token := range tokens {
				senders[i] = sender(t, v.socket(), token.Text)
			}
			v.checkDuring(t, fmt.Sprintf("%s: %d tokens", name, len(tokens)), func() { sendThriceASecond(t, senders) })
			took := testkit.Eventually(t, "no request is in flight", func() bool { return v.metric(t, "opsgate_http_requests_in_flight") == 0 })
			within(t, name+": until no request is in flight, with all responses unread", took, either(10*time.Second, 50*time.Second))
			v.checkUnwritten(t)
		})
	}
}

// sendThriceASecond calls each function three times a second, the default limit of a token, for 15
// seconds (2 in the short form). The calls are evenly spread.
func sendThriceASecond(t *testing.T, senders []func() error) {
	t.Helper()
	tick := time.NewTicker(time.Second / 3 / time.Duration(len(senders)))
	defer tick.Stop()
	for range either(45, 6) {
		for _, send := range senders {
			_ = send() // fails if the gateway has closed the connection
			<-tick.C
		}
	}
}

// sendUnread sends a request for a list of servers on a connection of its own, which is closed at
// the end of the test.
func sendUnread(t *testing.T, address string, roots *x509.CertPool, token string) error {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: maxWait}, "tcp", address, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET /v1/servers HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", token)
	return err
}

// Row 39: every token of one team sends only the header of a POST, at the default rate. Another
// team is served as before.
func TestAttackMissingBodiesOfOneTeam(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	tokens := createTokens(t, shared.data, either(150, 10))
	for name, http := range map[string]struct {
		config string
		length int
	}{
		"128 KiB": {"", bodySize},
		"16 MiB":  {", max_body_bytes: 16MiB", 16 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			config := fmt.Sprintf("http: {max_in_flight: %d%s}\n", either(1024, 64), http.config)
			v := startVictim(t, everyService(shared.address), nil, config, memoryLimit)
			v.maxFailed, v.maxFactor, v.maxMemory = 0, 3, either(134, 1000)
			v.other.tokens = texts(t, "other_team")
			senders := make([]func() error, len(tokens))
			for i, token := range tokens {
				senders[i] = func() error { return sendHeader(v.socket(), token.Text, http.length) }
			}
			v.checkDuring(t, fmt.Sprintf("%s: %d tokens", name, len(tokens)), func() { sendThriceASecond(t, senders) })
			expectNone(t, name+": requests that got no slot", int(v.metric(t, `opsgate_http_requests_shed_total{cause="in_flight"}`)))
		})
	}
}

// sendHeader sends the header of a POST with a body of that length on a connection of its own,
// which stays open until the gateway closes it.
func sendHeader(address, token string, length int) error {
	conn, err := net.DialTimeout("tcp", address, maxWait)
	if err != nil {
		return err
	}
	write(fmt.Sprintf("POST /v1/incidents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, length))(conn)
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	return nil
}
