package wiring_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
)

// A client could cause two lines per request while the identity service fails and works in turn.
func TestLinesOfAFlappingDependencyAreBounded(t *testing.T) {
	const requests, most = 100, 20
	services := servicestest.Start(t)
	services.Flaps = true
	r := startWith(t, services, "")
	for range requests {
		token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
		testkit.Must(t, err)
		r.token = token
		if got := r.get(t, r.Address(), "/v1/servers"); got.status != http.StatusUnauthorized && got.status != http.StatusServiceUnavailable {
			t.Fatalf("got %+v", got)
		}
	}
	r.finish(t)
	suppressed := r.suppressed("dependency")
	for _, text := range []string{"identity service is unavailable; cached tokens are accepted for a while", "identity service is available again"} {
		if n := len(r.lines(text)); n != most {
			t.Errorf("%d lines %q, want %d", n, text, most)
		}
	}
	if suppressed != requests-2*most {
		t.Errorf("%d lines are reported as suppressed, want %d", suppressed, requests-2*most)
	}
}

func TestFileWithManyMistakesLogsFewLines(t *testing.T) {
	const mistakes, most = 300, 100
	r := start(t, limits(100))
	var text strings.Builder
	for i := range mistakes {
		fmt.Fprintf(&text, "unknown_%d: 1\n", i)
	}
	if err := r.reload(t, text.String()); err == nil {
		t.Error("accepted")
	}
	r.finish(t)
	lines, suppressed := len(r.lines("configuration refused")), r.suppressed("configuration")
	if lines != most || suppressed != mistakes-most {
		t.Errorf("%d lines and %d suppressed", lines, suppressed)
	}
}

// suppressed returns the number of suppressed lines of a kind that the log reports.
func (r *running) suppressed(kind string) (n int) {
	for _, line := range r.lines("log lines suppressed") {
		if lines, ok := line["lines"].(float64); ok && line["kind"] == kind {
			n += int(lines)
		}
	}
	return n
}

// Connections without TLS and requests without a valid token cannot fill the log.
func TestUnauthenticatedClientsCauseFewLines(t *testing.T) {
	s := secureGateway(t, servicestest.Start(t), "")
	begun := time.Now()
	var clients sync.WaitGroup
	for i := range 200 {
		clients.Go(func() {
			conn, err := net.Dial("tcp", s.Address().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "this is not a TLS handshake\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the gateway closes it
		})
		if i%20 == 0 {
			client := s.client(t, true)
			clients.Go(func() {
				for range 100 {
					if got, _, err := s.do(client, "GET", "/elsewhere", nil); err != nil || got.StatusCode != 404 {
						t.Error(got, err)
					}
				}
			})
		}
	}
	clients.Wait()
	took := time.Since(begun)
	s.await(t, "log lines suppressed")
	lines := strings.Count(s.log.String(), "\n")
	t.Logf("1,000 refused requests and 200 connections without TLS in %v: %d lines", took, lines)
	if most := 100 * (2 + int(took/time.Second)); lines > most {
		t.Errorf("%d lines, at most %d", lines, most)
	}
}
