package chaostest

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// Far more connections are opened than the gateway holds. It lets go of those that wait.
func TestConnectionsAreLimited(t *testing.T) {
	parallel(t)
	most, come := either(1000, 100), either(10_001, 300)
	g := startGateway(t, everyService(shared.address), unlimited+fmt.Sprintf("http: {max_connections: %d}\n", most))
	v := newVictim(t, g, newClient(t, nil), g.url)
	v.loses = either(.01, .25) // on a busy machine it may come too late to keep a connection
	before := g.metric(t, "process_open_fds")
	var held float64
	v.checkDuring(t, fmt.Sprintf("%d connections", come), func() {
		held = g.metric(t, "process_open_fds")
		holdOpen(t, g.socket(), come, func() { held = max(held, g.metric(t, "process_open_fds")) })
	})
	// Some that are being accepted or closed count for a moment.
	atMost(t, "17", fmt.Sprintf("file descriptors more, where %d connections are taken", most), int(held-before), most+most/10)
	if held-before < float64(most)/2 {
		t.Errorf("only %v connections were held", held-before)
	}
}

// holdOpen opens connections, has each answer one request, keeps what it may keep of them, and looks now and then.
func holdOpen(t *testing.T, address string, n int, look func()) {
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
		_, _ = fmt.Fprint(conn, "GET /v1/me HTTP/1.1\r\nHost: many\r\n\r\n") // it may be closed already
		if i%(n/50) == 0 {
			look()
			sleep(t, either(100*time.Millisecond, 20*time.Millisecond))
		}
	}
}

// A backend answers nothing for a while. What is more than the gateway works on at once is refused at once.
func TestRequestsInFlightAreLimited(t *testing.T) {
	parallel(t)
	const atOnce = 20
	b := startBackend(t)
	g := startGateway(t, everyService(b.address), unlimited+fmt.Sprintf("http: {max_in_flight: %d}\n", atOnce))
	all := callers{
		client: newClient(t, nil), token: always(tokens(t)["full"].Text), rate: either(300.0, 100.0), number: mostClients, url: always(somewhere(g.url)),
	}
	noneFailed(t, "17", all.during(t, time.Second))
	v := &victim{gateway: g}
	stop, stopWatching := all.start(t), v.watch(t)
	b.freeze(t)
	eventually(t, "as many are under way as may be", func() bool { return g.metric(t, "opsgate_http_requests_in_flight") >= atOnce })
	busy := time.Now()
	sleep(t, either(3*time.Second, time.Second))
	thawed := time.Now()
	b.thaw(t)
	after := eventually(t, "requests are admitted again", func() bool {
		status, _ := me(t.Context(), all.client, g.url, tokens(t)["full"].Text)
		return status == http.StatusOK
	})
	answered, seen := stop(), stopWatching()
	shed := answered.between(busy, thawed).filter(func(a answer) bool { return a.status == http.StatusServiceUnavailable && a.retryAfter != "" })
	if len(shed) == 0 {
		t.Fatal("nothing was refused")
	}
	within(t, "17", fmt.Sprintf("p99 of %d requests refused as %d were under way", len(shed), atOnce), shed.percentile(.99),
		10*time.Millisecond)
	expectNone(t, "17", "answers in all other than 404 and 503 with retry-after", len(answered.filter(func(a answer) bool {
		return !a.isAdmitted() && (a.status != http.StatusServiceUnavailable || a.retryAfter == "")
	})))
	within(t, "17", "slowest answer to an operator meanwhile", seen.slowest, time.Second)
	within(t, "17", "until requests were admitted again", after, 5*time.Second)
}
