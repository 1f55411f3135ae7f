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

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
)

const (
	timeout = time.Minute // of a test's wait
	// serverTimeout is the listener's timeout for responses that are not streams.
	serverTimeout = time.Second
)

// serve serves the events of a console with timeouts like those of the admin listener, but shorter.
func serve(t *testing.T, o console.Options) (*console.Console, *httptest.Server) {
	t.Helper()
	o.Sampler, o.Source, o.Clock = console.NewSampler(newCounters(), time.Now), healthy(), time.Now
	c := console.New(o)
	server := httptest.NewUnstartedServer(http.HandlerFunc(c.Events))
	server.Config.ReadTimeout, server.Config.WriteTimeout = serverTimeout, serverTimeout
	server.Start()
	t.Cleanup(server.Close)
	return c, server
}

// client reads events.
type client struct {
	*http.Response

	events *bufio.Reader
	cancel context.CancelFunc
}

func connect(t *testing.T, url string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	testkit.Must(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return &client{response, bufio.NewReader(response.Body), cancel}
}

// state returns the next state, or false at the end of the stream.
func (r *client) state(t *testing.T) (s console.State, ok bool) {
	t.Helper()
	for {
		name, data, err := nextEvent(r.events)
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

func TestStateIsSentUntilTheClientDisconnects(t *testing.T) {
	t.Parallel()
	_, server := serve(t, console.Options{StateEvery: 30 * time.Millisecond, Host: "gate-7", Version: "1.2.3"})
	r := connect(t, server.URL)
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store",
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

func TestStreamsAreLimited(t *testing.T) {
	_, server := serve(t, console.Options{StateEvery: 10 * time.Millisecond})
	var clients []*client
	for range console.MaxStreams {
		r := connect(t, server.URL)
		if _, ok := r.state(t); !ok {
			t.Fatal("a stream within the limit has no events")
		}
		clients = append(clients, r)
	}
	r := connect(t, server.URL)
	var failure admin.Failure
	if err := json.NewDecoder(r.Body).Decode(&failure); err != nil || r.StatusCode != 503 || failure.Code != "too_many_streams" || r.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %+v, %v", r.StatusCode, failure, err)
	}
	clients[3].cancel()
	deadline := time.Now().Add(timeout)
	for connect(t, server.URL).StatusCode != 200 {
		if time.Now().After(deadline) {
			t.Fatal("the slot of a disconnected client is not released")
		}
	}
}

func TestStreamsEndWhenTheGatewayDrains(t *testing.T) {
	c, server := serve(t, console.Options{StateEvery: time.Hour})
	clients := []*client{connect(t, server.URL), connect(t, server.URL)}
	for _, r := range clients {
		if s, ok := r.state(t); !ok || s.Draining {
			t.Fatalf("got %+v", s)
		}
	}
	c.Drain()
	c.Drain() // has no effect
	for _, r := range clients {
		s, ok := r.state(t)
		if !ok || !s.Draining {
			t.Fatalf("the last state is %+v", s)
		}
		want := impaired("draining", "This gateway is draining: it will stop, and load balancers send it no more requests", "", "gateways.md#a-gateway-is-draining")
		if diff := diffFindings(t, want, s.Findings); diff != "" {
			t.Error(diff)
		}
		if _, ok := r.state(t); ok {
			t.Error("the stream does not end")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := server.Config.Shutdown(ctx); err != nil {
		t.Errorf("shutdown waits for streams: %v", err)
	}
	w := httptest.NewRecorder()
	c.Events(w, httptest.NewRequest(http.MethodGet, "/admin/events", http.NoBody))
	if w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"draining"`) {
		t.Errorf("a new stream: got %d %s", w.Code, w.Body)
	}
}

func TestStreamEndsWhenTheGatewayStops(t *testing.T) {
	g := start(t, "")
	r := connect(t, g.admin+"/admin/events")
	if _, ok := r.state(t); !ok {
		t.Fatal("there are no events")
	}
	g.stop()
	for {
		name, data, err := nextEvent(r.events)
		if errors.Is(err, io.EOF) {
			t.Fatal("the stream ended without a draining state")
		}
		if err != nil {
			t.Fatalf("the stream was cut off: %v", err)
		}
		if name == "state" && strings.Contains(string(data), `"draining":true`) {
			break
		}
	}
	if _, _, err := nextEvent(r.events); !errors.Is(err, io.EOF) {
		t.Errorf("the stream was cut off, or does not end: %v", err)
	}
	testkit.Must(t, <-g.ended)
}

// A client that does not read blocks the writer once the buffers of the connection are full.
func TestClientThatDoesNotReadIsDisconnected(t *testing.T) {
	s := healthy()
	s.config.File = strings.Repeat("x", 1<<20)
	c := console.New(console.Options{Sampler: console.NewSampler(newCounters(), time.Now), StateEvery: time.Millisecond, WriteTimeout: 100 * time.Millisecond, Source: s, Clock: time.Now})
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		c.Events(w, r)
	}))
	t.Cleanup(server.Close)
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	testkit.Must(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(timeout):
		t.Error("the stream does not end")
	}
}

// The page shows the start of an outage, not the time of the first request.
func TestOutageIsShownFromItsStart(t *testing.T) {
	g := start(t, "")
	g.stopFleet()
	r := connect(t, g.admin+"/admin/events")
	var began time.Time
	for shown := 0; shown < 3; { // during several attempts to connect
		s, ok := r.state(t)
		if !ok {
			t.Fatal("the stream ended")
		}
		for _, d := range s.Dependencies {
			if d.Name != "fleet" || d.OK || d.Since == nil {
				continue
			}
			shown++
			if began.IsZero() {
				began = *d.Since
			}
			if !d.Since.Equal(began) || began.After(s.At.Add(2*time.Second)) { // At is truncated, and read before
				t.Errorf("at %v the outage began at %v, before at %v", s.At, d.Since, began)
			}
			if text := s.Findings[0].Text; !strings.HasPrefix(text, "fleet: ") || !strings.Contains(text, " for ") {
				t.Errorf("the finding is %q", text)
			}
		}
	}
}
