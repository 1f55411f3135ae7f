package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/admin/console"
)

const (
	// patience is how long a test waits for what must come.
	patience = time.Minute
	// serverTimeout is how long the listener lets answers take that are no streams.
	serverTimeout = 500 * time.Millisecond
)

// serve serves the events of a console under the bounds of the admin listener, only shorter.
func serve(t *testing.T, o console.Options) (*console.Console, *httptest.Server) {
	t.Helper()
	if o.Metrics == nil {
		o.Metrics = newCounters()
	}
	if o.Source == nil {
		o.Source = well()
	}
	c := console.New(o)
	server := httptest.NewUnstartedServer(http.HandlerFunc(c.Events))
	server.Config.ReadTimeout, server.Config.WriteTimeout = serverTimeout, serverTimeout
	server.Start()
	t.Cleanup(server.Close)
	return c, server
}

// A reader follows the events.
type reader struct {
	*http.Response

	events *bufio.Reader
	leave  context.CancelFunc
}

func follow(t *testing.T, server *httptest.Server) *reader {
	t.Helper()
	return followAt(t, server.URL)
}

func followAt(t *testing.T, url string) *reader {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), patience)
	t.Cleanup(leave)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return &reader{response, bufio.NewReader(response.Body), leave}
}

// state waits for the next state, and returns false where the stream ends.
func (r *reader) state(t *testing.T) (s console.State, ok bool) {
	t.Helper()
	for {
		name, data, err := next(r.events)
		if err != nil {
			return s, false
		}
		if name == "state" {
			if err := json.Unmarshal(data, &s); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			return s, true
		}
	}
}

func TestEventsComeWhileSomebodyLooks(t *testing.T) {
	_, server := serve(t, console.Options{StateEvery: 30 * time.Millisecond, Host: "gate-7", Version: "1.2.3"})
	r := follow(t, server)
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	began, last := time.Now(), time.Time{}
	for time.Since(began) < 3*serverTimeout || !last.After(began.Add(serverTimeout)) {
		s, ok := r.state(t)
		if !ok || s.At.Before(last) || s.Host != "gate-7" || s.Version != "1.2.3" || s.Verdict != "well" || s.Config.Version != "0123456789ab" {
			t.Fatalf("%v: got %+v", ok, s)
		}
		last = s.At
	}
}

func TestReadersAreBounded(t *testing.T) {
	_, server := serve(t, console.Options{StateEvery: 10 * time.Millisecond})
	var readers []*reader
	for range console.MaxStreams {
		r := follow(t, server)
		if _, ok := r.state(t); !ok {
			t.Fatal("a reader for whom there is room gets nothing")
		}
		readers = append(readers, r)
	}
	r := follow(t, server)
	var failure admin.Failure
	if err := json.NewDecoder(r.Body).Decode(&failure); err != nil || r.StatusCode != 503 || failure.Code != "too_many_streams" || r.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %+v, %v", r.StatusCode, failure, err)
	}
	readers[3].leave()
	until := time.Now().Add(patience)
	for follow(t, server).StatusCode != 200 {
		if time.Now().After(until) {
			t.Fatal("nobody gets the place of a reader that left")
		}
	}
}

func TestStreamsEndWhenTheGatewayDrains(t *testing.T) {
	c, server := serve(t, console.Options{StateEvery: time.Hour})
	readers := []*reader{follow(t, server), follow(t, server)}
	for _, r := range readers {
		if s, ok := r.state(t); !ok || s.Draining {
			t.Fatalf("got %+v", s)
		}
	}
	c.Drain()
	c.Drain() // whoever says it twice
	for _, r := range readers {
		if s, ok := r.state(t); !ok || !s.Draining || s.Findings[0].Key != "draining" {
			t.Errorf("the last word is %+v", s)
		}
		if _, ok := r.state(t); ok {
			t.Error("the stream goes on")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := server.Config.Shutdown(ctx); err != nil {
		t.Errorf("the listener waits for readers: %v", err)
	}
	w := httptest.NewRecorder()
	c.Events(w, httptest.NewRequest(http.MethodGet, "/admin/events", http.NoBody))
	if w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"draining"`) {
		t.Errorf("a new one: got %d %s", w.Code, w.Body)
	}
}

func TestAGatewayEndsWhileSomebodyLooks(t *testing.T) {
	g := start(t, "")
	r := followAt(t, g.admin+"/admin/events")
	if _, ok := r.state(t); !ok {
		t.Fatal("there are no events")
	}
	g.stop()
	for {
		name, data, err := next(r.events)
		if errors.Is(err, io.EOF) {
			t.Fatal("the stream ended without a last word")
		}
		if err != nil {
			t.Fatalf("the stream was cut off: %v", err)
		}
		if name == "state" && strings.Contains(string(data), `"draining":true`) {
			break
		}
	}
	if _, _, err := next(r.events); !errors.Is(err, io.EOF) {
		t.Errorf("the stream was cut off, or goes on: %v", err)
	}
	if err := <-g.ended; err != nil {
		t.Error(err)
	}
}

// A reader that takes nothing blocks the writer once the buffers of the connection are full.
func TestAReaderThatTakesNothingIsLeft(t *testing.T) {
	s := well()
	s.config.File = strings.Repeat("x", 1<<20)
	c := console.New(console.Options{Metrics: newCounters(), StateEvery: time.Millisecond, WriteWithin: 100 * time.Millisecond, Source: s})
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		c.Events(w, r)
	}))
	t.Cleanup(server.Close)
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the stream goes on")
	}
}
