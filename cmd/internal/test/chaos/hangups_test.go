package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// slow is a service that answers no call. It reports when each call arrives and is canceled.
type slow struct {
	arrived chan struct{}
	ended   chan time.Time
}

func (s *slow) hold(ctx context.Context) error {
	s.arrived <- struct{}{}
	<-ctx.Done()
	s.ended <- time.Now()
	return ctx.Err()
}

// request sends a request on a new connection and does not read the response.
func request(t *testing.T, g *gateway, method, path, body string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", g.socket())
	must(t, err)
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: opsgate\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		method, path, texts(t, "full")["full"], len(body), body)
	must(t, err)
	return conn
}

// receive receives a value, or fails the test after maxWait.
func receive[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(maxWait):
		t.Fatalf("not in %s: %s", maxWait, what)
	}
	return v
}

// Clients disconnect while a service works on their requests, ten at a time.
func TestClientsHangUp(t *testing.T) {
	parallel(t)
	const batch = 10
	rounds := either(20, 4)
	service := &slow{arrived: make(chan struct{}, batch), ended: make(chan time.Time, batch)}
	g := startGateway(t, withSharedIdentity(startFake(t, service.hold)), "rate_limit: {limits: [{requests: 1000, per: 1h}]}\n")
	body := `{"title":"t","status":"resolved","impact":"none","message":"m"}`
	var longest time.Duration
	for range rounds {
		var conns [batch]net.Conn
		for i := range conns {
			if i%2 == 0 {
				conns[i] = request(t, g, http.MethodGet, "/v1/servers", "")
			} else {
				conns[i] = request(t, g, http.MethodPost, "/v1/incidents", body)
			}
		}
		for range conns {
			receive(t, "a call arrives", service.arrived)
		}
		at := time.Now()
		for _, conn := range conns {
			_ = conn.Close()
		}
		for range conns {
			longest = max(longest, receive(t, "a call is canceled", service.ended).Sub(at))
		}
	}
	n := rounds * batch
	within(t, "15", fmt.Sprintf("until the service's call was canceled, the longest of %d", n), longest, 100*time.Millisecond)
	counted := func(route string) int {
		return int(g.metric(t, fmt.Sprintf("opsgate_http_requests_total{cause=%q,code=%q,route=%q,status=%q}", "client-gone", "client_closed_request", route, "499")))
	}
	eventually(t, "all are counted", func() bool { return counted("v1ListServers")+counted("v1CreateIncident") == n })
	report(t, "15", "counted as 499", n, n)
	if !g.breakers(t, "closed", read()...) {
		t.Error("a breaker counted disconnected clients")
	}
	report(t, "15", "breakers", "closed", "closed")
	expectNone(t, "15", "refunds", int(g.metric(t, "opsgate_rate_limit_refunds_total")))
	last := fetch(t.Context(), http.DefaultClient, g.url+"/v1/me", texts(t, "full")["full"])
	if want := fmt.Sprintf(`"hour";r=%d;`, 1000-n-1); !strings.HasPrefix(last.rateLimit, want) {
		t.Errorf("RateLimit is %s, want %s", last.rateLimit, want)
	}
}
