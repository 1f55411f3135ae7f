package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

// send sends a request as bytes, and returns the response with its body.
func (h *harness) send(t *testing.T, conn net.Conn, request string) answer {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	// A new reader loses nothing, because a server sends only responses.
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.Must(t, err)
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	testkit.Must(t, err)
	return answer{got, string(body)}
}

func (h *harness) connect(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", h.Listener.Addr().String())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	testkit.Must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn
}

func post(body string, length int) string {
	return fmt.Sprintf("POST /v1/incidents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer full\r\nContent-Length: %d\r\n\r\n%s", length, body)
}

func TestLateBodyIs408AndCounts(t *testing.T) {
	var calls atomic.Int64
	h := start(t, func(o *Options) {
		o.BodyTimeout = 50 * time.Millisecond
		o.Policies = policies(t, ratelimit.Limit{Name: "hour", Requests: 10, Per: time.Hour})
	})
	h.services.on("CreateIncident", func(context.Context, proto.Message) (proto.Message, error) {
		calls.Add(1)
		return nil, context.Canceled
	})
	got := h.send(t, h.connect(t), post(`{"title":"late"`, 1000))
	got.mustFail(t, 408, "request_timeout")
	if budget := got.Header.Get("RateLimit"); !strings.Contains(budget, "r=9") {
		t.Errorf("RateLimit = %q, want the request counted", budget)
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	mustCount(t, h, "opsgate_http_requests_total", map[string]float64{"input:timeout request_timeout v1CreateIncident 408": 1})
	mustCount(t, h, "opsgate_rate_limit_refunds_total", map[string]float64{})
}

// Over HTTP/2 a late body resets its stream only, because other requests use the connection.
func TestLateBodyOverHTTP2KeepsTheConnection(t *testing.T) {
	h := start(t, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	client, url := serveHTTP2(t, h)
	for again := range 2 {
		body, begun := io.Pipe()
		go func() { _, _ = io.WriteString(begun, `{"title":`) }() // and then nothing
		var conn httptrace.GotConnInfo
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { conn = got }})
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/incidents", body)
		req.Header.Set("Authorization", "Bearer full")
		resp, err := client.Do(req)
		testkit.Must(t, err)
		_ = body.Close()
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestTimeout || resp.ProtoMajor != 2 || conn.Reused != (again == 1) {
			t.Errorf("got %s over %s, on a connection that was used before: %t", resp.Status, resp.Proto, conn.Reused)
		}
	}
}

// The time in which the body arrives does not count against the deadline of the call.
func TestCallDeadlineStartsWhenTheBodyIsComplete(t *testing.T) {
	const timeout, late = 5 * time.Second, time.Second
	h := start(t, func(o *Options) { o.Timeout = timeout })
	var deadline time.Time
	h.services.on("CreateIncident", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		deadline, _ = ctx.Deadline()
		return nil, context.Canceled
	})
	conn := h.connect(t)
	if _, err := io.WriteString(conn, post(newIncident[:10], len(newIncident))); err != nil {
		t.Fatal(err)
	}
	<-time.After(late)
	complete := time.Now()
	h.send(t, conn, newIncident[10:]).mustBe(t, 500)
	if left := deadline.Sub(complete); left < timeout-late+100*time.Millisecond { // some of it was used before the body was read
		t.Errorf("the service has %v of %v", left, timeout)
	}
}

// net/http reads ahead while a handler runs, to detect a disconnect. The deadline of the body must
// not end that read.
func TestBodyTimeoutDoesNotLimitTheResponse(t *testing.T) {
	h := start(t, func(o *Options) { o.BodyTimeout = 500 * time.Millisecond })
	h.services.on("CreateIncident", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		select {
		case <-time.After(time.Second):
			return nil, context.DeadlineExceeded
		case <-ctx.Done():
			t.Error("the call ended with the time of the body")
			return nil, ctx.Err()
		}
	})
	conn := h.connect(t)
	h.send(t, conn, post(newIncident, len(newIncident))).mustFail(t, 504, "timeout")
	h.send(t, conn, "GET /v1/me HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer full\r\n\r\n").mustBe(t, 200)
}
