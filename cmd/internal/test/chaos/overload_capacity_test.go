package chaos

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// Far more connections are opened than the gateway allows. It closes idle ones.
func TestConnectionsAreLimited(t *testing.T) {
	parallel(t)
	limit, n := either(1000, 100), either(10_001, 300)
	g := startGateway(t, everyService(shared.address), unlimited+fmt.Sprintf("http: {max_connections: %d}\n", limit))
	v := newVictim(t, g, newClient(t, nil))
	v.maxFailed = either(.01, .25) // on a busy machine its new connections may be closed, too
	before := g.metric(t, "process_open_fds")
	var held float64
	v.checkDuring(t, fmt.Sprintf("%d connections", n), func() {
		held = g.metric(t, "process_open_fds")
		holdOpen(t, g.socket(), n, func() { held = max(held, g.metric(t, "process_open_fds")) })
	})
	// Connections that are being accepted or closed count for a moment.
	atMost(t, "17", fmt.Sprintf("additional file descriptors with a maximum of %d connections", limit), int(held-before), limit+limit/10)
	if held-before < float64(limit)/2 {
		t.Errorf("only %v connections were held", held-before)
	}
}

// holdOpen opens n connections, sends one request on each, keeps them open, and calls poll from time to time.
func holdOpen(t *testing.T, address string, n int, poll func()) {
	t.Helper()
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for i := range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		conns = append(conns, conn)
		_, _ = fmt.Fprint(conn, "GET /v1/me HTTP/1.1\r\nHost: many\r\n\r\n") // fails if the connection is closed
		if i%(n/50) == 0 {
			poll()
			sleep(t, either(100*time.Millisecond, 20*time.Millisecond))
		}
	}
}

// A backend does not respond for some time. Requests beyond the maximum in flight are refused at once.
func TestRequestsInFlightAreLimited(t *testing.T) {
	parallel(t)
	const limit = 20
	b := startBackend(t)
	g := startGateway(t, everyService(b.address), unlimited+fmt.Sprintf("http: {max_in_flight: %d}\n", limit))
	all := load{gateways: []*gateway{g}, client: newClient(t, nil), rate: either(300.0, 100.0), clients: mostClients}
	noneFailed(t, "17", all.during(t, time.Second))
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
	within(t, "17", fmt.Sprintf("p99 of %d requests refused while %d were in flight", len(shed), limit), shed.percentile(.99),
		10*time.Millisecond)
	expectNone(t, "17", "responses other than 404 and 503 with retry-after", len(answered.responses)-len(answered.admitted())-len(answered.unavailable()))
	within(t, "17", "slowest response of the admin listener during it", seen.slowest, time.Second)
	within(t, "17", "until requests were admitted again", answered.took(back), 5*time.Second)
}
