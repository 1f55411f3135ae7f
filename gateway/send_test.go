package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/internal/testkit"
)

// A stalled response is one whose client reads nothing until it is cut off.
type stalled struct {
	discardWriter

	writing chan struct{} // closed when the body is written
	cutOff  chan struct{}
}

func newStalled() *stalled {
	return &stalled{discardWriter{header: make(http.Header)}, make(chan struct{}), make(chan struct{})}
}

func (s *stalled) Write([]byte) (int, error) {
	close(s.writing)
	<-s.cutOff
	return 0, io.ErrClosedPipe
}

// SetWriteDeadline is called by [http.ResponseController].
func (s *stalled) SetWriteDeadline(time.Time) error {
	close(s.cutOff)
	return nil
}

// withUnwritten sets the limit of unwritten responses.
func withUnwritten(bytes int64) func(*Options) {
	return func(o *Options) { o.LoadLimit = newLoadLimit(1000, 64<<20, bytes) }
}

// requestFrom returns a request from an address.
func requestFrom(address, path, token string) *http.Request {
	request := httptest.NewRequest("GET", path, http.NoBody)
	request.RemoteAddr = address + ":1"
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request
}

// largeList answers ListServers with more than a connection buffers.
func (s *services) largeList() {
	s.answers["ListServers"] = func(context.Context, proto.Message) (proto.Message, error) { return manyServers(100), nil }
}

func TestUnreadResponseHoldsNoSlot(t *testing.T) {
	for path, token := range map[string]string{"/v1/servers?limit=100": "full", "/openapi.yaml": ""} {
		h := start(t, func(o *Options) { o.LoadLimit.SetLimit(1) })
		h.services.largeList()
		w := newStalled()
		var serving sync.WaitGroup
		serving.Go(func() { h.gateway.ServeHTTP(w, requestFrom("10.0.0.1", path, token)) })
		<-w.writing
		if inFlight, _, _ := h.gateway.options.LoadLimit.Stats(); inFlight != 0 {
			t.Errorf("%s: %d in flight", path, inFlight)
		}
		if got := h.get(t, "/v1/me"); got.StatusCode != 200 {
			t.Errorf("%s: another request: got %d", path, got.StatusCode)
		}
		close(w.cutOff)
		serving.Wait()
	}
}

// The largest responses of a team are made one after the other. One that is made holds up none,
// whether it failed or its client does not read it.
func TestResponseThatIsMadeHoldsUpNoLargeOne(t *testing.T) {
	h := start(t)
	large := manyServers(1)
	large.Servers[0].Name = strings.Repeat("n", min(7, runtime.GOMAXPROCS(0))<<20) // the services may send 8 MiB
	h.services.answers["ListServers"] = func(context.Context, proto.Message) (proto.Message, error) { return large, nil }
	w := newStalled()
	var serving sync.WaitGroup
	serving.Go(func() { h.gateway.ServeHTTP(w, requestFrom("10.0.0.1", "/v1/servers", "full")) })
	<-w.writing
	if got := h.get(t, "/v1/servers").StatusCode; got != 200 {
		t.Errorf("while the client does not read another one: got %d", got)
	}
	close(w.cutOff)
	serving.Wait()
	created := large.Servers[0].CreatedAt
	large.Servers[0].CreatedAt = &timestamppb.Timestamp{Seconds: math.MaxInt64} // breaks the contract
	if got := h.get(t, "/v1/servers").StatusCode; got != 500 {
		t.Errorf("an invalid response: got %d", got)
	}
	large.Servers[0].CreatedAt = created
	if got := h.get(t, "/v1/servers").StatusCode; got != 200 {
		t.Errorf("after an invalid response: got %d", got)
	}
}

// One site that reads no downloads does not cut off those of another site.
func TestUnreadDownloadsAreSharedBySite(t *testing.T) {
	h := start(t, withUnwritten(8*2*(145<<10))) // of one site: two downloads, each of which costs 128 KiB and 16 KiB
	var serving sync.WaitGroup
	begin := func(address string) *stalled {
		w := newStalled()
		serving.Go(func() { h.gateway.ServeHTTP(w, requestFrom(address, "/openapi.yaml", "")) })
		<-w.writing
		return w
	}
	for i, w := range []*stalled{begin("10.0.9.1"), begin("10.0.1.1"), begin("10.0.1.1"), begin("10.0.1.2")} {
		select {
		case <-w.cutOff:
			if i != 1 {
				t.Errorf("download %d is cut off, want the oldest one of the site", i)
			}
		default:
			close(w.cutOff)
		}
	}
	serving.Wait()
	mustCount(t, h, "opsgate_http_responses_cut_off_total", map[string]float64{"anonymous": 1})
	if !strings.Contains(h.log.String(), `"msg":"response cut off","cause":"anonymous"`) {
		t.Errorf("log: %s", h.log)
	}
}

// unwrittenBytes returns the memory of responses that are being written.
func (h *harness) unwrittenBytes(t *testing.T) float64 {
	t.Helper()
	families, err := h.registry.Gather()
	testkit.Must(t, err)
	for _, f := range families {
		if f.GetName() == "opsgate_http_unwritten_response_bytes" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no metric of unwritten responses")
	return 0
}

// serveHTTP2 serves a gateway with HTTP/2 and returns a client.
func serveHTTP2(t *testing.T, h *harness) (*http.Client, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h.gateway)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Client(), server.URL
}

func TestHTTP2ClientThatReadsIsNotCutOff(t *testing.T) {
	h := start(t, withUnwritten(1)) // a second response in progress is past every bound
	h.services.largeList()
	client, url := serveHTTP2(t, h)
	var first []byte
	for i := range 50 {
		for _, path := range []string{"/v1/servers?limit=100", "/v1/me"} {
			request := requestFrom("", url+path, "full")
			request.RequestURI = ""
			response, err := client.Do(request)
			testkit.Must(t, err)
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != 200 || response.ContentLength != int64(len(body)) && !response.Uncompressed {
				t.Fatalf("%s: %v, %d, %d of %d bytes", path, err, response.StatusCode, len(body), response.ContentLength)
			}
			if first == nil {
				first = body
			}
			if path != "/v1/me" && !bytes.Equal(first, body) {
				t.Fatalf("body %d differs", i)
			}
		}
	}
	if bytes := h.unwrittenBytes(t); bytes != 0 {
		t.Errorf("%g bytes are unwritten", bytes)
	}
}

// The response to an anonymous request over HTTP/2 is cut off when its client does not open the
// flow control window.
func TestUnreadHTTP2StreamIsResetAtItsDeadline(t *testing.T) {
	h := start(t)
	_, url := serveHTTP2(t, h)
	address := strings.TrimPrefix(url, "https://")
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	testkit.Must(t, err)
	defer func() { _ = conn.Close() }()
	frames := startUnreadStream(t, conn)
	testkit.Eventually(t, "the response is accounted", func() bool { return h.unwrittenBytes(t) > 0 })
	h.gateway.options.LoadLimit.CutOffOverdue(time.Now())
	mustCount(t, h, "opsgate_http_responses_cut_off_total", map[string]float64{})
	h.gateway.options.LoadLimit.CutOffOverdue(time.Now().Add(5 * time.Second))
	if got := <-frames; got != "RST_STREAM" {
		t.Errorf("got %s", got)
	}
	mustCount(t, h, "opsgate_http_responses_cut_off_total", map[string]float64{"deadline": 1})
}

// startUnreadStream sends a request without a token on a new HTTP/2 connection whose flow control
// window is 0. It sends the type of the first frame that is neither of the connection nor the
// header of the response.
func startUnreadStream(t *testing.T, conn net.Conn) <-chan string {
	t.Helper()
	framer := http2.NewFramer(conn, conn)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	var errs []error
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "gateway"}, {":path", "/v1/me"}} {
		errs = append(errs, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	_, err := io.WriteString(conn, http2.ClientPreface)
	errs = append(errs, err, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
	testkit.Must(t, errors.Join(errs...))
	frames := make(chan string, 1)
	go func() {
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				frames <- err.Error()
				return
			}
			if header := frame.Header(); header.StreamID == 1 && header.Type != http2.FrameHeaders {
				frames <- header.Type.String()
				return
			}
		}
	}()
	return frames
}

// countingConnection counts the responses that are sent with one write.
type countingConnection struct{ responses atomic.Int32 }

func (*countingConnection) MarkBusy()        {}
func (*countingConnection) MarkIdle()        {}
func (*countingConnection) CutOff(bool) bool { return false }

func (c *countingConnection) WriteAtOnce(write func() error) error {
	c.responses.Add(1)
	return write()
}

func TestResponsesThatNetHTTPSplitsAreSentWithOneWrite(t *testing.T) {
	for _, test := range []struct {
		servers, want int
		tls           bool
	}{{1, 0, false}, {20, 1, false}, {20, 0, true}, {200, 0, false}} {
		h, c := start(t), new(countingConnection)
		h.services.answers["ListServers"] = func(context.Context, proto.Message) (proto.Message, error) { return manyServers(test.servers), nil }
		server := httptest.NewUnstartedServer(h.gateway)
		server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return WithConnection(ctx, c) }
		if test.tls {
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(server.Close)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/servers", nil)
		testkit.Must(t, err)
		req.Header.Set("Authorization", "Bearer full")
		req.Header.Set("Accept-Encoding", "identity")
		res, err := server.Client().Do(req)
		testkit.Must(t, err)
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got := c.responses.Load(); int(got) != test.want || err != nil || int64(len(body)) != res.ContentLength {
			t.Errorf("%d servers, TLS %v: %d responses of %d bytes, of which the client read %d, %v",
				test.servers, test.tls, got, res.ContentLength, len(body), err)
		}
	}
}
