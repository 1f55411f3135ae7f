package chaos

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

const soon, late = unknownServer, "/v1/server-groups"

// deadline returns the deadline of a path. It is longer in the short form, so that a busy machine meets it.
func deadline(path string) time.Duration {
	if path == soon {
		return either(time.Second, 3*time.Second)
	}
	return either(2*time.Second, 4*time.Second)
}

// hanging configures the deadline of soon for its operation, and that of late for all others.
func hanging() string {
	return fmt.Sprintf("http: {request_timeout: %v}\nroutes: {v1GetServer: {timeout: %v}}\n", deadline(late), deadline(soon))
}

// A service does not respond, and the gateway has practically no breaker.
func TestBackendHangs(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	w := newLink(t, shared.address)
	behind := everyService(shared.address)
	behind.fleet = w.address()
	g := startGateway(t, behind, hanging()+"upstream_calls: {breaker: {min_requests: 100000}}\n"+unlimited)
	l := load{gateways: []*gateway{g}, paths: []string{soon, late}, rate: 25, clients: mostClients}
	noneFailed(t, "12", l.during(t, either(3*time.Second, time.Second/2)))
	before := g.idleGoroutines(t)

	w.addToxic(t, `{"type": "timeout", "attributes": {"timeout": 0}}`)
	l.duration = either(15*time.Second, time.Second)
	wait := l.start(t)
	sleep(t, l.duration)
	most := g.metric(t, "go_goroutines")
	all := wait()
	w.removeToxics(t)
	ended := time.Now()
	eventually(t, "the number of goroutines is as before", func() bool { return g.metric(t, "go_goroutines") <= 1.05*before })
	within(t, "12", fmt.Sprintf("until goroutines, %v before and %v at most, were within 5 %% of before", before, most),
		time.Since(ended), 10*time.Second)
	expectNone(t, "12", fmt.Sprintf("responses other than 504, of %d", len(all)), len(all.except(http.StatusGatewayTimeout)))
	var furthest time.Duration
	for _, a := range all {
		furthest = max(furthest, (a.took - deadline(a.path)).Abs())
	}
	within(t, "12", fmt.Sprintf("largest difference from the deadline of %v or %v", deadline(soon), deadline(late)), furthest, 100*time.Millisecond)
	eventually(t, "the service responds", func() bool {
		return fetch(t.Context(), http.DefaultClient, g.url+late, tokens(t)["full"].Text).status == http.StatusOK
	})
}

// idleGoroutines returns the number of goroutines without requests.
func (g *gateway) idleGoroutines(t *testing.T) (n float64) {
	t.Helper()
	eventually(t, "the number of goroutines is stable", func() bool {
		before := n
		n = g.metric(t, "go_goroutines")
		if n != before {
			sleep(t, 200*time.Millisecond)
		}
		return n == before
	})
	return n
}

// The only process of a service is frozen. Timeouts open the breaker; after that only probes wait.
func TestBreakerOpensOnTimeouts(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	b := startBackend(t)
	behind := everyService(shared.address)
	behind.fleet = b.address
	g := startGateway(t, behind, hanging()+unlimited)
	l := load{gateways: []*gateway{g}, paths: []string{soon, late}, rate: 25, clients: mostClients}
	const open, closed = "the breaker is open", "the breaker is closed"
	all := l.through(t,
		phase{"usual", nil, nil, either(3*time.Second, time.Second/2)},
		phase{open, func() { b.Freeze(t) }, func() bool { return g.breakers(t, "open", "fleet") }, either(8*time.Second, time.Second)},
		phase{closed, func() { b.Thaw(t) }, func() bool { return g.breakers(t, "closed", "fleet") }, either(3*time.Second, time.Second/2)},
	)
	within(t, "12", "until the breaker of a frozen process was open", all.took(open), 3*time.Second)
	within(t, "12", fmt.Sprintf("median of %d requests from then on", len(all.in(open))), all.in(open).percentile(.5), 10*time.Millisecond)
	within(t, "12", "until it was closed, after the process continued", all.took(closed), 10*time.Second)
	noneFailed(t, "12", all.in(closed))
}
