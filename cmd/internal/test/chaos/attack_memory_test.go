package chaos

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

// Row 36: as many connections as http.max_connections is by default, whose clients make each of
// them as large as they can, fit into the memory limit, and another client is served.
func TestAttackMemoryOfConnections(t *testing.T) {
	parallel(t)
	const mebi = 1 << 20
	memory := either(460, 120) * mebi // the limit of a container of 512 MiB
	n := limitedTo(memory).MaxConnections()
	public := newPublicTLS(t)
	for _, attack := range someOf([]struct {
		name  string
		begin func(*attacker) error
		most  int64 // live memory of a connection; 0 if the connections are closed because they are too large together
	}{
		{"idle, HTTP/1.1", (*attacker).idle, idleConnection},
		{"idle, HTTP/2", (*attacker).idle2, idleConnection},
		{"half a handshake", (*attacker).halfHandshake, idleConnection},
		{"worst, HTTP/1.1", (*attacker).worst, config.WorstConnection},
		{"worst, HTTP/2", (*attacker).worst2, config.WorstConnection},
		{"half headers, HTTP/1.1", (*attacker).halfHeader, 0},
	}) {
		t.Run(attack.name, func(t *testing.T) {
			parallel(t)
			g := startGateway(t, everyService(shared.address), unlimited+public.config()+"http: {read_header_timeout: 1m}\n",
				fmt.Sprint("GOMEMLIMIT=", memory))
			if limit := int(g.metric(t, "opsgate_http_connections_limit")); limit != n {
				t.Fatalf("the limit is %d connections, not %d", limit, n)
			}
			client := newClient(t, public.roots())
			other := load{gateways: []*gateway{g}, client: client, rate: either(100.0, 20.0), clients: 4}
			other.during(t, time.Second)
			before := g.liveMemory(t)
			stop := other.start(t)
			attackers := attackWith(t, n, g.socket(), public.client(), attack.begin)
			sleep(t, time.Second)
			newcomer := &http.Client{Transport: withoutKeepAlives(client.Transport), Timeout: maxWait}
			if status := me(t.Context(), newcomer, g.url, tokens(t)["full"].Text).status; status != http.StatusOK {
				t.Errorf("a new client: got %d", status)
			}
			others := stop()
			open := int(g.metric(t, "opsgate_http_connections_open"))
			grown := g.liveMemory(t) - before
			report(t, fmt.Sprintf("%s: of %d connections, open", attack.name, attackers), open, "")
			if attack.most > 0 && open < n*9/10 {
				t.Errorf("only %d of %d connections are open", open, n)
			}
			atMost(t, fmt.Sprintf("%s: of %d requests of another client, failed", attack.name, len(others)), len(others.failed()), len(others)/100)
			g.checkMemory(t, attack.name, grown, open, attack.most, memory)
		})
	}
}

// idleConnection is the most live memory of a TLS connection that has done nothing unusual.
const idleConnection = 40 << 10

// limitedTo returns the default configuration under a memory limit.
func limitedTo(memory int) config.Loaded {
	return config.Loaded{Config: config.Default(), MemoryLimit: int64(memory)}
}

// checkMemory checks the live memory of the connections, and the largest resident memory of the
// process. With the race detector these are several times as large.
func (g *gateway) checkMemory(t *testing.T, name string, grown, open int, most int64, limit int) {
	t.Helper()
	resident := peakMemory(t, g.Process)
	if testkit.Race {
		return
	}
	if most > 0 {
		atMost(t, name+": bytes of live memory per connection", grown/max(1, open), int(most))
	} else {
		atMost(t, name+": live memory, MiB", grown>>20, int(limitedTo(limit).ConnectionMemory()>>20))
	}
	atMost(t, name+": largest resident memory, MiB", resident>>20, limit>>20)
}

// liveMemory returns the bytes of heap and stacks that are in use after garbage collections.
func (g *gateway) liveMemory(t *testing.T) int {
	t.Helper()
	for range 2 { // the first one empties pools
		g.get(t, "/debug/pprof/heap?gc=1")
	}
	return int(g.metric(t, "go_memstats_heap_alloc_bytes") + g.metric(t, "go_memstats_stack_inuse_bytes"))
}

// peakMemory returns the largest resident memory of the process in bytes.
func peakMemory(t *testing.T, p *testkit.Process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		testkit.SkipWithout(t, "Linux", "elsewhere, the largest resident memory is not known")
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	text, _, _ := strings.Cut(after, "kB")
	kibi, err := strconv.Atoi(strings.TrimSpace(text))
	testkit.Must(t, err)
	return kibi << 10
}

// attackWith opens n connections, calls begin on each, and returns how many that succeeded on.
func attackWith(t *testing.T, n int, address string, config *tls.Config, begin func(*attacker) error) int {
	t.Helper()
	var begun atomic.Int64
	var opening errgroup.Group
	opening.SetLimit(8)
	dialAll(t, n, 0, address, func(conn net.Conn) {
		opening.Go(func() error {
			_ = conn.SetDeadline(time.Now().Add(maxWait))
			if begin(&attacker{raw: conn, config: config}) == nil { // fails if the gateway closes the connection
				begun.Add(1)
			}
			return nil
		})
	})
	_ = opening.Wait() // nil
	return int(begun.Load())
}

// An attacker is one connection, which its methods make as large as the gateway lets them.
type attacker struct {
	raw    net.Conn
	config *tls.Config
	tls    *tls.Conn
}

// halfRecord begins a TLS record of 16 KiB, for which crypto/tls allocates a buffer.
func (a *attacker) halfRecord() error {
	_, err := a.raw.Write([]byte{23, 3, 3, 0x40, 0, 1})
	return err
}

// halfHandshake sends a ClientHello and no more.
func (a *attacker) halfHandshake() error {
	err := tls.Client(mute{a.raw}, a.config).Handshake()
	if errors.Is(err, errMute) {
		return nil
	}
	return err
}

// mute is a connection on which the client ignores what it receives.
type mute struct{ net.Conn }

var errMute = errors.New("the client has read something")

func (m mute) Read(p []byte) (int, error) {
	if n, err := m.Conn.Read(p); err != nil {
		return n, err
	}
	return 0, errMute
}

// send completes a handshake with HTTP/1.1 and writes a text.
func (a *attacker) send(text string) error {
	if a.tls == nil {
		a.tls = tls.Client(a.raw, a.config)
	}
	_, err := io.WriteString(a.tls, text)
	return err
}

const requestLine = "GET /v1/me HTTP/1.1\r\nHost: h\r\n"

func (a *attacker) idle() error { return a.request("") }

// request sends a request with a header field of that value, and reads the response.
func (a *attacker) request(value string) error {
	if err := a.send(requestLine + "X: " + value + "\r\n\r\n"); err != nil {
		return err
	}
	got, err := http.ReadResponse(bufio.NewReader(a.tls), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, got.Body)
	return errors.Join(err, got.Body.Close())
}

func (a *attacker) halfHeader() error {
	return a.send(requestLine + "X-Slow: " + strings.Repeat("v", 31_000))
}

// worst leaves a TLS buffer of 16 KiB from an earlier request, as many header fields as do not
// count, and half a record.
func (a *attacker) worst() error {
	return errors.Join(a.request(strings.Repeat("v", 12_000)), a.send(requestLine+fields(900)), a.halfRecord())
}

// fields returns that many bytes of header fields, each as short as possible.
func fields(size int) string {
	var text strings.Builder
	for i := 0; text.Len() < size; i++ {
		text.WriteString(strconv.FormatInt(int64(i), 36) + ":\r\n")
	}
	return text.String()
}

// connect2 completes a handshake with HTTP/2.
func (a *attacker) connect2() (*http2.Framer, error) {
	config := a.config.Clone()
	config.NextProtos = []string{"h2"}
	a.tls = tls.Client(a.raw, config)
	_, err := io.WriteString(a.tls, http2.ClientPreface)
	framer := http2.NewFramer(a.tls, a.tls)
	return framer, errors.Join(err, framer.WriteSettings(), framer.WriteSettingsAck())
}

func (a *attacker) idle2() error {
	framer, err := a.connect2()
	return errors.Join(err, request2(framer, 0))
}

// request2 sends a request with a header field of that size, and reads the response.
func request2(framer *http2.Framer, size int) error {
	block := headerBlock("/v1/me", extraFields(1, size)...)
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true}); err != nil {
		return err
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		if frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			return nil
		}
	}
}

// worst2 is worst with HTTP/2, whose server keeps the buffer of the largest frame.
func (a *attacker) worst2() error {
	framer, err := a.connect2()
	err = errors.Join(err, request2(framer, 12_000))
	err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: headerBlock("/v1/me", extraFields(30, 0)...)}))
	return errors.Join(err, a.halfRecord())
}
