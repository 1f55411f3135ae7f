package wiring_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/authn"
)

// A logLine has the fields of a log line that tests need.
type logLine struct {
	Time  time.Time
	Msg   string
	Kind  string
	Lines int
	Code  string
}

// logLines parses the log of a gateway.
func (r *reloading) logLines(t *testing.T) (lines []logLine) {
	t.Helper()
	for text := range strings.Lines(r.log.String()) {
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// flood sends requests without a token, requests with a token over its limit, and connections without a TLS handshake, until the time is
// over and lines of each kind are suppressed. It returns how many it sent of each.
func (s *secure) flood(t *testing.T, during time.Duration) (anonymous, denied, junk int64) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	var unauthorized, refusals, handshakes atomic.Int64
	for _, token := range []string{"", "", s.token, s.token} {
		client := s.client(t, false)
		load.Go(func() {
			for ctx.Err() == nil {
				got, _, err := s.do(client, "GET", "/v1/servers", http.Header{"Authorization": {"Bearer " + token}}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				switch got.StatusCode {
				case http.StatusUnauthorized:
					unauthorized.Add(1)
				case http.StatusTooManyRequests:
					refusals.Add(1)
				}
			}
		})
		load.Go(func() {
			for ctx.Err() == nil {
				conn, err := net.Dial("tcp", s.Address().String())
				if err != nil {
					t.Error(err)
					return
				}
				handshakes.Add(1)
				_, _ = conn.Write([]byte("not a TLS handshake"))
				_, _ = conn.Read(make([]byte, 1)) // until the gateway closes it
				_ = conn.Close()
			}
		})
	}
	begun := time.Now()
	suppressed := regexp.MustCompile(`(?m)^opsgate_log_lines_suppressed_total\{kind="(unauthenticated|rate_limited|connection)"\} [1-9]`)
	eventually(t, "lines of each kind are suppressed", func() bool {
		return time.Since(begun) > during && len(suppressed.FindAllString(s.get(t, s.AdminAddress(), "/metrics").body, -1)) == 3
	})
	stop()
	load.Wait()
	return unauthorized.Load(), refusals.Load(), handshakes.Load()
}

// A client could cause two lines per request while the identity service fails and works in turn.
func TestLinesOfAFlappingDependencyAreBounded(t *testing.T) {
	const requests, most = 100, 20
	services := startServices(t)
	services.flaps = true
	r := reloadingGateway(t, services, "")
	for range requests {
		token, err := authn.TokenFormat{Prefix: "ops_"}.New(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		r.token = token
		if got := r.get(t, r.Address(), "/v1/servers"); got.status != http.StatusUnauthorized && got.status != http.StatusServiceUnavailable {
			t.Fatalf("got %+v", got)
		}
	}
	r.finish(t)
	suppressed := r.suppressed(t, "dependency")
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
	r := reloadingGateway(t, startServices(t), limits(100))
	var text strings.Builder
	for i := range mistakes {
		fmt.Fprintf(&text, "unknown_%d: 1\n", i)
	}
	if err := r.reload(t, text.String()); err == nil {
		t.Error("accepted")
	}
	r.finish(t)
	lines, suppressed := len(r.lines("configuration refused")), r.suppressed(t, "configuration")
	if lines != most || suppressed != mistakes-most {
		t.Errorf("%d lines and %d suppressed", lines, suppressed)
	}
}

// suppressed returns the number of suppressed lines of a kind that the log reports.
func (r *reloading) suppressed(t *testing.T, kind string) (n int) {
	t.Helper()
	for _, line := range r.logLines(t) {
		if line.Msg == "log lines suppressed" && line.Kind == kind {
			n += line.Lines
		}
	}
	return n
}

func TestFloodOfRefusalsLogsFewLines(t *testing.T) {
	s := secureGateway(t, startServices(t), "rate_limit: {limits: [{requests: 1, per: 1h}]}\n")
	anonymous, denied, junk := s.flood(t, 1500*time.Millisecond)
	s.finish(t)
	logged, suppressed := map[string]int64{}, map[string]int64{}
	lines := s.logLines(t)
	for _, line := range lines {
		switch {
		case line.Msg == "log lines suppressed":
			suppressed[line.Kind] += int64(line.Lines)
		case line.Code == "unauthorized":
			logged["unauthenticated"]++
		case line.Code == "rate_limited":
			logged["rate_limited"]++
		case strings.HasPrefix(line.Msg, "http: TLS handshake error"):
			logged["connection"]++
		}
	}
	for kind, sent := range map[string]int64{"unauthenticated": anonymous, "rate_limited": denied, "connection": junk} {
		if logged[kind]+suppressed[kind] != sent || logged[kind] == 0 || suppressed[kind] == 0 {
			t.Errorf("%s: %d lines and %d suppressed of %d", kind, logged[kind], suppressed[kind], sent)
		}
	}
	most := 0
	for i := range lines {
		within := 0
		for _, later := range lines[i:] {
			if later.Time.Sub(lines[i].Time) < time.Second {
				within++
			}
		}
		most = max(most, within)
	}
	t.Logf("%d refused without a token, %d over a limit, %d failed handshakes: at most %d lines in a second", anonymous, denied, junk, most)
	if most > 100 {
		t.Errorf("%d lines in a second", most)
	}
}
