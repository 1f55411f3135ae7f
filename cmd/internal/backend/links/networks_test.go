package links_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/store/query"
)

const (
	here      = "127.0.0.1"
	neighbour = "127.0.0.2" // of here, in the same network
	elsewhere = "127.0.8.1"
	proxy     = "127.0.9.1" // a trusted one
)

// dial opens a connection from a source address.
func (s *site) dial(source string) net.Conn {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	conn, err := dialer.DialContext(s.t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	testkit.Must(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	testkit.Must(s.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return conn
}

// send makes a request on a connection and returns its status, or 0 if the connection was closed.
func send(conn net.Conn, method, path string, headers ...string) (status int, header http.Header) {
	_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n%s\r\n", method, path, strings.Join(append(headers, ""), "\r\n"))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil
	}
	_ = response.Body.Close()
	return response.StatusCode, response.Header
}

// sendFrom makes a request on a connection of its own.
func (s *site) sendFrom(source, method, path string, headers ...string) int {
	s.t.Helper()
	conn := s.dial(source)
	defer func() { _ = conn.Close() }()
	status, _ := send(conn, method, path, headers...)
	return status
}

// mustHaveRefused checks the metric of refusals.
func (s *site) mustHaveRefused(requests, connections float64) {
	s.t.Helper()
	families, err := s.registry.Gather()
	testkit.Must(s.t, err)
	for _, m := range families[0].GetMetric() {
		want := map[string]float64{"requests": requests, "connections": connections}[m.GetLabel()[0].GetValue()]
		if got := m.GetCounter().GetValue(); got != want {
			s.t.Errorf("%v is %g, want %g", m.GetLabel(), got, want)
		}
	}
	if len(families) != 1 || len(families[0].GetMetric()) != 2 || families[0].GetName() != "opsbackend_links_refused_total" {
		s.t.Errorf("the metrics are %v", families)
	}
}

// A POST that changes nothing is answered while another transaction writes.
func TestRequestsWithoutEffectDoNotWaitForTheWriter(t *testing.T) {
	s := start(t)
	s.expect("POST", confirm, 200)
	testkit.Must(t, s.store.Write(t.Context(), func(*query.Queries) error {
		s.expect("POST", unknown+"confirm", 404)
		s.expect("POST", unknown+"unsubscribe", 200)
		s.expect("POST", confirm, 200)
		return nil
	}))
}

func TestRequestsOfANetworkAreBounded(t *testing.T) {
	s := start(t)
	conn := s.dial(here)
	for i := range 100 {
		if status, _ := send(conn, "POST", unknown+"confirm"); status != 404 {
			t.Fatalf("request %d: status %d", i, status)
		}
	}
	for range 2 {
		if status, header := send(conn, "POST", remove); status != 429 || header.Get("Retry-After") != "1" {
			t.Errorf("one more request: status %d, %v", status, header)
		}
	}
	s.mustHaveRefused(2, 0)
	if text := s.log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "network=127.0.0.0/24 cause=requests") {
		t.Errorf("the log is\n%s", text)
	}
	if status := s.sendFrom(neighbour, "GET", confirm); status != 429 {
		t.Errorf("another address of the network: status %d", status)
	}
	if status := s.sendFrom(elsewhere, "GET", confirm); status != 200 {
		t.Errorf("another network: status %d", status)
	}
	s.later.Add(int64(time.Second / 10))
	for _, want := range []int{200, 429} {
		if status := s.sendFrom(here, "GET", confirm); status != want {
			t.Errorf("after a tenth of a second: status %d, want %d", status, want)
		}
	}
	s.later.Add(int64(time.Minute))
	for range 100 {
		if status, _ := send(conn, "GET", confirm); status != 200 {
			t.Fatalf("after a minute: status %d", status)
		}
	}
	if status, _ := send(conn, "GET", confirm); status != 429 {
		t.Errorf("after a hundred more: status %d", status)
	}
}

func TestOnlyATrustedProxySetsTheAddressOfTheClient(t *testing.T) {
	s := start(t)
	const forwarded = "X-Forwarded-For: 6.6.6.6, 203.0.113.7"
	for range 100 {
		if status := s.sendFrom(proxy, "GET", confirm, forwarded); status != 200 {
			t.Fatalf("status %d", status)
		}
	}
	for _, c := range []struct {
		source, header string
		want           int
	}{
		{proxy, forwarded, 429},
		{proxy, "X-Forwarded-For: 203.0.113.9", 429}, // the same network
		{proxy, "X-Forwarded-For: 203.0.113.7, 6.6.6.6", 200},
		{proxy, "X-Forwarded-For: 203.0.113.7, ?", 200}, // the proxy itself
		{elsewhere, forwarded, 200},
	} {
		if status := s.sendFrom(c.source, "GET", confirm, c.header); status != c.want {
			t.Errorf("%s with %q: status %d, want %d", c.source, c.header, status, c.want)
		}
	}
	s.sendFrom(elsewhere, "POST", confirm, forwarded)
	s.sendFrom(proxy, "POST", remove, "X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 2001:db8::7")
	var addresses []string
	for _, e := range s.entries() {
		addresses = append(addresses, e.IpAddress)
	}
	if strings.Join(addresses, " ") != "2001:db8::7 "+elsewhere {
		t.Errorf("the audit log has the addresses %q", addresses)
	}
}

func TestConnectionsOfANetworkAreBounded(t *testing.T) {
	s := start(t)
	open := make([]net.Conn, 16)
	for i := range open {
		open[i] = s.dial(here)
		if status, _ := send(open[i], "GET", confirm); status != 200 {
			t.Fatalf("connection %d: status %d", i, status)
		}
	}
	if status := s.sendFrom(neighbour, "GET", confirm); status != 0 {
		t.Errorf("one more connection: status %d", status)
	}
	s.mustHaveRefused(0, 1)
	for range 40 {
		if status, _ := send(s.dial(proxy), "GET", confirm); status != 200 {
			t.Fatalf("a proxy: status %d", status)
		}
	}
	if status := s.sendFrom(elsewhere, "GET", confirm); status != 200 {
		t.Errorf("another network: status %d", status)
	}
	if status, _ := send(open[0], "GET", confirm, "Connection: close"); status != 200 {
		t.Errorf("status %d", status)
	}
	testkit.Eventually(t, "a connection is accepted after another one was closed", func() bool {
		return s.sendFrom(here, "GET", confirm) == 200
	})
}
