package wiring_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
)

// refuse sends the start of a request whose body never arrives, and returns the status and the time
// until the connection was closed.
func refuse(t *testing.T, address net.Addr, request string) (status int, took time.Duration) {
	t.Helper()
	c, begun := connect(t, address), time.Now()
	got, _ := c.ask(t, request+"\r\n")
	if _, err := c.ReadByte(); !errors.Is(err, io.EOF) || !got.Close {
		t.Errorf("%q: after %d: %v, closing: %t; want the connection closed", request, got.StatusCode, err, got.Close)
	}
	return got.StatusCode, time.Since(begun)
}

// A response that does not need the body is sent without waiting for it, and closes the connection.
func TestRefusedBodyIsNotReadToItsEnd(t *testing.T) {
	services := servicestest.Start(t)
	services.Scopes = []string{"incidents:write", "servers:read"}
	r := startWith(t, services, "http: {max_body_bytes: 1KiB}\n"+limits(10_000))
	strict := startWith(t, services, limits(1))
	strict.mustAdmit(t, 1)
	to := func(line string) string {
		return line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + services.Token + "\r\n"
	}
	post, one := to("POST /v1/incidents"), "Content-Length: 1\r\n"
	for _, test := range []struct {
		status  int
		address net.Addr
		request string
	}{
		{401, r.Address(), "POST /v1/incidents HTTP/1.1\r\nHost: h\r\n" + one},
		{401, r.Address(), "POST /v1/incidents HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"},
		{200, r.Address(), to("GET /docs/") + "Content-Length: 1000000\r\n"},
		{200, r.Address(), to("GET /v1/servers") + one},
		{204, r.Address(), to("OPTIONS /v1/incidents") + one},
		{403, r.Address(), to("GET /v1/monitors") + one},
		{403, r.Address(), to("GET /v1/monitors") + one + "Expect: 100-continue\r\n"},
		{404, r.Address(), to("POST /v1/nothing") + one},
		{404, r.Address(), to("POST /elsewhere") + one},
		{405, r.Address(), to("DELETE /v1/incidents") + one},
		{413, r.Address(), post + "Content-Length: 2000\r\n"},
		{413, r.Address(), post + "Transfer-Encoding: chunked\r\n\r\n800\r\n" + strings.Repeat("x", 2048)},
		{415, r.Address(), post + one + "Content-Type: text/plain\r\n"},
		{429, strict.Address(), post + one},
		{405, r.AdminAddress(), to("POST /livez") + one},
		{404, r.AdminAddress(), to("POST /nothing") + one},
	} {
		testkit.Eventually(t, "a response within 100 ms", func() bool { // on a busy machine not always the first
			status, took := refuse(t, test.address, test.request)
			if status != test.status {
				t.Fatalf("%q: got %d, want %d", test.request, status, test.status)
			}
			return took <= 100*time.Millisecond
		})
	}
}

func TestLateBodyClosesTheConnection(t *testing.T) {
	services := servicestest.Start(t)
	services.Scopes = []string{"incidents:write"}
	r := startWith(t, services, "http: {body_timeout: 100ms}\n"+limits(100))
	post := "POST /v1/incidents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + services.Token + "\r\n"
	for _, late := range []string{"Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n\r\n1\r\n{"} {
		if status, _ := refuse(t, r.Address(), post+late); status != 408 {
			t.Errorf("%q: got %d", late, status)
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
