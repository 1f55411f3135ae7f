package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

// A backend does not respond for some time. Requests beyond the maximum in flight are refused at once.
func TestRequestsInFlightAreLimited(t *testing.T) {
	parallel(t)
	const limit = 20
	b := startBackend(t)
	g := startGateway(t, everyService(b.address), unlimited+fmt.Sprintf("http: {max_in_flight: %d}\n", limit))
	all := load{gateways: []*gateway{g}, client: newClient(t, nil), rate: either(300.0, 100.0), clients: mostClients}
	calm := all
	calm.clients = limit / 2 // after a pause of this process, all clients send at once
	noneFailed(t, calm.during(t, time.Second))
	const busy, back = "the maximum is in flight", "requests are admitted again"
	stopWatching := watch(t, g.admin)
	answered := all.through(t,
		phase{busy, func() { b.Freeze(t) }, func() bool { return g.metric(t, "opsgate_http_requests_in_flight") >= limit }, either(3*time.Second, time.Second)},
		phase{back, func() { b.Thaw(t) }, func() bool {
			return me(t.Context(), all.client, g.url, tokens(t)["full"].Text).status == http.StatusOK
		}, 0},
	)
	seen := stopWatching()
	shed := answered.in(busy).unavailable()
	if len(shed) == 0 {
		t.Fatal("nothing was refused")
	}
	within(t, fmt.Sprintf("p99 of %d requests refused while %d were in flight", len(shed), limit), shed.percentile(.99),
		10*time.Millisecond)
	expectNone(t, "responses other than 404 and 503 with retry-after", len(answered.responses)-len(answered.admitted())-len(answered.unavailable()))
	within(t, "slowest response of the admin listener during it", seen.slowest, time.Second)
	within(t, "until requests were admitted again", answered.took(back), 5*time.Second)
}

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
	testkit.Must(t, err)
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: opsgate\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		method, path, texts(t, "full")["full"], len(body), body)
	testkit.Must(t, err)
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
	g := startGateway(t, everyService(startFake(t, service.hold)), "rate_limit: {limits: [{requests: 1000, per: 1h}]}\n")
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
	within(t, fmt.Sprintf("until the service's call was canceled, the longest of %d", n), longest, 100*time.Millisecond)
	counted := func(route string) int { return g.requests(t, "client-gone", "client_closed_request", route, "499") }
	testkit.Eventually(t, "all are counted", func() bool { return counted("v1ListServers")+counted("v1CreateIncident") == n })
	report(t, "counted as 499", n, n)
	if !g.breakers(t, "closed", read()...) {
		t.Error("a breaker counted disconnected clients")
	}
	report(t, "breakers", "closed", "closed")
	expectNone(t, "refunds", int(g.metric(t, "opsgate_rate_limit_refunds_total")))
	last := fetch(t.Context(), http.DefaultClient, g.url+"/v1/me", texts(t, "full")["full"])
	if want := fmt.Sprintf(`"hour";r=%d;`, 1000-n-1); !strings.HasPrefix(last.rateLimit, want) {
		t.Errorf("RateLimit is %s, want %s", last.rateLimit, want)
	}
}
