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
	if err := c.SetDeadline(time.Now().Add(4 * time.Second)); err != nil { // less than http.body_timeout
		t.Fatal(err)
	}
	if _, err := io.WriteString(c.Conn, request); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(c.Reader, nil)
	testkit.Must(t, err)
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadByte(); !errors.Is(err, io.EOF) || !got.Close {
		t.Errorf("after %d: %v, closing: %t; want the connection closed", got.StatusCode, err, got.Close)
	}
	return got
}

func TestRefusedBodyIsNotReadToItsEnd(t *testing.T) {
	services := servicestest.Start(t)
	services.Scopes = []string{"incidents:write"}
	r := reloadingGateway(t, services, "http: {max_body_bytes: 1KiB, body_timeout: 100ms}\n"+limits(100))
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
	services := servicestest.Start(t)
	r := reloadingGateway(t, services, "")
	body := strings.Repeat("x", 100_000)
	for range 20 {
		c := r.connect(t)
		if _, err := fmt.Fprintf(c.Conn, "POST /v1/incidents HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadResponse(c.Reader, nil)
		testkit.Must(t, err)
		text, err := io.ReadAll(got.Body)
		if err != nil || got.StatusCode != 401 || !strings.Contains(string(text), "unauthorized") {
			t.Fatalf("got %d %s, %v", got.StatusCode, text, err)
		}
	}
}

// A connection stays open after a body that was read, and over HTTP/2 also after one that was not.
func TestConnectionSurvivesBodiesThatWereRead(t *testing.T) {
	services := servicestest.Start(t)
	services.Scopes = []string{"incidents:write"}
	r := reloadingGateway(t, services, limits(100))
	c := r.connect(t)
	for range 3 {
		_, err := fmt.Fprintf(c.Conn, "POST /v1/incidents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: 2\r\n\r\n{}", services.Token)
		testkit.Must(t, err)
		got, err := http.ReadResponse(c.Reader, nil)
		testkit.Must(t, err)
		_, _ = io.Copy(io.Discard, got.Body)
		if got.StatusCode != 422 || got.Close {
			t.Errorf("got %d, closing: %t", got.StatusCode, got.Close)
		}
	}

	s := secureGateway(t, services, limits(100)+"http: {max_body_bytes: 1KiB}\n")
	overHTTP2 := s.client(t, true)
	for range 3 {
		got, text, err := s.do(overHTTP2, "POST", "/v1/incidents", nil, strings.NewReader(strings.Repeat(" ", 4096)))
		if err != nil || got.StatusCode != 413 {
			t.Errorf("got %v %s, %v", got, text, err)
		}
	}
	s.mustHaveMetric(t, "opsgate_http_connections_open", "1")
}
