package wiring_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/servicestest"
)

// refuse sends the start of a request whose body never arrives, and returns the response. It fails the test unless the connection is
// closed after it.
func (c *client) refuse(t *testing.T, request string) *http.Response {
	t.Helper()
	testkit.Must(t, c.SetDeadline(time.Now().Add(4*time.Second))) // less than http.body_timeout
	got, _ := c.ask(t, request)
	if _, err := c.ReadByte(); !errors.Is(err, io.EOF) || !got.Close {
		t.Errorf("after %d: %v, closing: %t; want the connection closed", got.StatusCode, err, got.Close)
	}
	return got
}

func TestRefusedBodyIsNotReadToItsEnd(t *testing.T) {
	services := servicestest.Start(t)
	services.Scopes = []string{"incidents:write"}
	r := startWith(t, services, "http: {max_body_bytes: 1KiB, body_timeout: 100ms}\n"+limits(100))
	token := "Authorization: Bearer " + services.Token + "\r\n"
	for _, test := range []struct {
		header, body string
		status       int
	}{
		{"Content-Length: 2000\r\n", "", 413},
		{"Transfer-Encoding: chunked\r\n", "800\r\n" + strings.Repeat("x", 2048), 413},
		{"Content-Length: 1\r\nContent-Type: text/plain\r\n", "", 415},
		{"Content-Length: 1\r\n", "", 408},
		{"Transfer-Encoding: chunked\r\n", "1\r\n{", 408},
	} {
		got := r.connect(t).refuse(t, "POST /v1/incidents HTTP/1.1\r\nHost: h\r\n"+token+test.header+"\r\n"+test.body)
		if got.StatusCode != test.status {
			t.Errorf("%q: got %d, want %d", test.header, got.StatusCode, test.status)
		}
	}
}

// A client that sends a whole body before it reads gets the response and not a reset.
func TestClientThatSendsItsWholeBodyGetsTheRefusal(t *testing.T) {
	r := start(t, "")
	body := strings.Repeat("x", 100_000)
	for range 20 {
		got, text := r.connect(t).ask(t, fmt.Sprintf("POST /v1/incidents HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		if got.StatusCode != 401 || !strings.Contains(text, "unauthorized") {
			t.Fatalf("got %d %s", got.StatusCode, text)
		}
	}
}

// A connection stays open after a body that was read, and over HTTP/2 also after one that was not.
func TestConnectionSurvivesBodiesThatWereRead(t *testing.T) {
	services := servicestest.Start(t)
	services.Scopes = []string{"incidents:write"}
	r := startWith(t, services, limits(100))
	c := r.connect(t)
	for range 3 {
		got, _ := c.ask(t, "POST /v1/incidents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "+services.Token+"\r\nContent-Length: 2\r\n\r\n{}")
		if got.StatusCode != 422 || got.Close {
			t.Errorf("got %d, closing: %t", got.StatusCode, got.Close)
		}
	}

	s := secureGateway(t, services, limits(100)+"http: {max_body_bytes: 1KiB}\n")
	overHTTP2 := s.client(t, true)
	for range 3 {
		got, text, err := s.do(overHTTP2, "POST", "/v1/incidents", strings.NewReader(strings.Repeat(" ", 4096)))
		if err != nil || got.StatusCode != 413 {
			t.Errorf("got %v %s, %v", got, text, err)
		}
	}
	s.mustHaveMetric(t, "opsgate_http_connections_open", "1")
}
