package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient/testkit"
)

// unlimited configures limits that no test reaches.
const unlimited = "rate_limit: {limits: [{requests: 1000000, per: 1s}]}\n"

// parallel runs a test in parallel in the short form, where bounds on time are loose.
func parallel(t *testing.T) {
	t.Helper()
	if !*full {
		t.Parallel()
	}
}

// allReads is a load of all reads through one gateway.
func allReads(t *testing.T, g *gateway, rate float64) load {
	t.Helper()
	return load{gateways: []*gateway{g}, tokens: texts(t, "full"), paths: reads(), rate: rate, clients: mostClients}
}

// expectFewFailures checks that at most 0.5 % of the reads failed. In the short form it is 10 %: a busy machine has many requests in flight,
// and the test is too short for successful ones to outweigh them.
func expectFewFailures(t *testing.T, what string, all responses) {
	t.Helper()
	failed, bound := all.failed(), 10.
	if *full {
		bound = .5
	}
	share := 100 * float64(len(failed)) / float64(len(all))
	report(t, what, fmt.Sprintf("%d of %d, %.2f %%", len(failed), len(all), share), fmt.Sprintf("at most %.1f %%", bound))
	if share > bound || len(all) == 0 {
		t.Errorf("%d of %d failed: %+v", len(failed), len(all), failed[:min(len(failed), 3)])
	}
}

// timeToLastFailure returns the time from since to the last failed request.
func (all responses) timeToLastFailure(since time.Time) time.Duration {
	failed := all.failed()
	if len(failed) == 0 {
		return 0
	}
	return max(0, failed[len(failed)-1].sent.Sub(since))
}

// One of three backends is killed and restarted, then the other two stop. Nothing fails if the restarted one gets calls again.
func TestBackendKilledAndRestarted(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	replicas, name := startReplicas(t, 3)
	g := startGateway(t, everyService(name), unlimited)
	rate := either(300.0, 100)
	all := allReads(t, g, rate).through(t,
		phase{"usual", nil, nil, either(3*time.Second, time.Second)},
		phase{"killed", replicas[1].Kill, nil, either(8*time.Second, time.Second)},
	)
	expectFewFailures(t, "reads that failed when one of three was killed", all.responses)
	within(t, "until the last failure", all.since("killed").timeToLastFailure(all.began("killed")), 5*time.Second)
	report(t, fmt.Sprintf("p99 since then (%v before)", tenths(all.in("usual").percentile(.99))), tenths(all.since("killed").percentile(.99)), "–")

	replicas[1].restart(t)
	const reconnected = "the restarted one gets calls"
	left := allReads(t, g, rate).through(t,
		phase{reconnected, nil, func() bool { return g.hasEndpoints(t, 3) }, either(5*time.Second, time.Second)},
		phase{"one stopped", func() { replicas[0].End(t) }, nil, either(3*time.Second, time.Second)},
		phase{"the other stopped", func() { replicas[2].End(t) }, nil, either(3*time.Second, time.Second)},
	)
	within(t, "until the restarted one got calls", left.took(reconnected), 5*time.Second)
	report(t, "reads while the other two stopped", len(left.responses), "none fails")
	noneFailed(t, left.responses)
}

// A frozen process keeps its connection but does not respond. Only the calls that it received fail, at their deadline, until the
// gateway closes the connection.
func TestBackendFrozen(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	replicas, name := startReplicas(t, 3)
	g := startGateway(t, everyService(name), fmt.Sprintf("http: {request_timeout: %v}\n", either(10*time.Second, 6*time.Second))+unlimited)
	rate := either(300.0, 100)
	frozen := either(30*time.Second, 8*time.Second)
	all := allReads(t, g, rate).through(t,
		phase{"usual", nil, nil, either(3*time.Second, time.Second)},
		phase{"frozen", func() { replicas[1].Freeze(t) }, nil, frozen},
	)
	replicas[1].Thaw(t)
	expectFewFailures(t, fmt.Sprintf("reads that failed while one of three was frozen for %v", frozen), all.responses)
	if *full {
		usual := all.in("usual").percentile(.5)
		within(t, fmt.Sprintf("median during it (%v before)", tenths(usual)), all.since("frozen").percentile(.5), usual+2*time.Millisecond)
	}
	noneFailed(t, allReads(t, g, rate).during(t, either(3*time.Second, time.Second/2)))
}

// breakers reports whether the breakers of all these services are in a state.
func (g *gateway) breakers(t *testing.T, state string, services ...string) bool {
	t.Helper()
	for _, service := range services {
		if g.metric(t, fmt.Sprintf("opsgate_upstream_breaker_state{service=%q,state=%q}", service, state)) == 0 {
			return false
		}
	}
	return true
}

// hasEndpoints reports whether n endpoints of each service are ready for calls.
func (g *gateway) hasEndpoints(t *testing.T, n int) bool {
	t.Helper()
	metrics := g.get(t, "/metrics")
	for _, service := range append(read(), "identity") {
		if !strings.Contains(metrics, fmt.Sprintf("opsgate_upstream_endpoints{service=%q,state=\"ready\"} %d\n", service, n)) {
			return false
		}
	}
	return true
}

// read returns the services of reads.
func read() []string { return []string{"fleet", "monitoring", "incident", "audit"} }

// All services are killed. A client with a limit of 20 per hour makes requests during the outage, and all of them are refunded.
func TestAllBackendsDown(t *testing.T) {
	parallel(t)
	const hourly = 20
	b := startBackend(t)
	g := startGateway(t, everyService(b.address), fmt.Sprintf("upstream_calls: {breaker: {open_for: %v}}\nrate_limit:\n"+
		"  limits: [{requests: 1000000, per: 1s}]\n  tokens: {%s: {limits: [{requests: %d, per: 1h}]}}\n",
		either(3*time.Second, time.Second), tokens(t)["read"].ID, hourly))
	limited := load{gateways: []*gateway{g}, tokens: texts(t, "read"), paths: reads(), rate: 20, clients: 4}
	if known := fetch(t.Context(), http.DefaultClient, g.url+"/v1/me", limited.tokens["read"]); known.status != http.StatusOK {
		t.Fatalf("%+v", known)
	}
	const open, closed = "all breakers are open", "all breakers are closed"
	var endLimited func() responses
	var duringOutage responses
	all := allReads(t, g, either(300.0, 100)).through(t,
		phase{"usual", nil, nil, either(3*time.Second, time.Second)},
		phase{open, func() {
			b.Kill()
			endLimited = limited.start(t)
		}, func() bool { return g.breakers(t, "open", read()...) }, either(10*time.Second, 2*time.Second)},
		phase{"back", func() { duringOutage = endLimited() }, nil, 0},
		phase{closed, func() { b.restart(t) }, func() bool { return g.breakers(t, "closed", read()...) }, either(3*time.Second, time.Second/2)},
	)

	noneFailed(t, all.filter(func(a response) bool { return a.sent.Add(a.took).Before(all.began(open)) }))
	within(t, "until all breakers were open", all.took(open), time.Second)
	during := all.in(open)
	within(t, fmt.Sprintf("p99 of %d requests while the breakers were open (%v before)", len(during), tenths(all.in("usual").percentile(.99))),
		during.percentile(.99), 10*time.Millisecond)
	expectNone(t, "responses other than 503 with retry-after while the breakers were open", len(during)-len(during.unavailable()))
	within(t, "until all breakers were closed, after the backend was back", all.took(closed), 10*time.Second)
	noneFailed(t, all.in(closed))
	checkRefunds(t, g, duringOutage, len(all.failed()), hourly)
}

// checkRefunds checks that every failed request was refunded, and that the limited token has its limit left.
func checkRefunds(t *testing.T, g *gateway, limited responses, failed, hourly int) {
	t.Helper()
	expectNone(t, fmt.Sprintf("of %d requests of a token with %d per hour, denied by its limit", len(limited), hourly), len(limited.refused()))
	testkit.Eventually(t, "all refunds have been sent", func() bool {
		return int(g.metric(t, "opsgate_rate_limit_refunds_total")) >= failed+len(limited.failed())
	})
	report(t, "refunds", g.metric(t, "opsgate_rate_limit_refunds_total"), failed+len(limited.failed()))
	if refunds := int(g.metric(t, "opsgate_rate_limit_refunds_total")); refunds != failed+len(limited.failed()) {
		t.Errorf("%d requests failed, %d were refunded", failed+len(limited.failed()), refunds)
	}
	if len(limited) <= hourly {
		t.Errorf("only %d requests of a token with %d per hour", len(limited), hourly)
	}
	last := fetch(t.Context(), http.DefaultClient, g.url+"/v1/me", texts(t, "read")["read"])
	want := fmt.Sprintf(`"hour";r=%d;`, hourly-2) // this one and the one before the outage
	report(t, "remaining of that token's hour, after one request before the outage and one after it", last.rateLimit, want)
	if !strings.HasPrefix(last.rateLimit, want) {
		t.Errorf("got %s, want %s", last.rateLimit, want)
	}
}

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
	return fmt.Sprintf("http: {request_timeout: %v}\nroutes: {v1GetServer: {timeout: %v}}\nauthn: {lookup_timeout: 1s}\n", deadline(late), deadline(soon))
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
	noneFailed(t, l.during(t, either(3*time.Second, time.Second/2)))
	before := g.idleGoroutines(t)

	w.addToxic(t, `{"type": "timeout", "attributes": {"timeout": 0}}`)
	l.duration = either(15*time.Second, time.Second)
	wait := l.start(t)
	sleep(t, l.duration)
	most := g.metric(t, "go_goroutines")
	all := wait()
	w.removeToxics(t)
	ended := time.Now()
	testkit.Eventually(t, "the number of goroutines is as before", func() bool { return g.metric(t, "go_goroutines") <= 1.05*before })
	within(t, fmt.Sprintf("until goroutines, %v before and %v at most, were within 5 %% of before", before, most),
		time.Since(ended), 10*time.Second)
	expectNone(t, fmt.Sprintf("responses other than 504, of %d", len(all)), len(all.except(http.StatusGatewayTimeout)))
	var furthest time.Duration
	for _, a := range all {
		furthest = max(furthest, (a.took - deadline(a.path)).Abs())
	}
	within(t, fmt.Sprintf("largest difference from the deadline of %v or %v", deadline(soon), deadline(late)), furthest, 100*time.Millisecond)
	testkit.Eventually(t, "the service responds", func() bool {
		return fetch(t.Context(), http.DefaultClient, g.url+late, tokens(t)["full"].Text).status == http.StatusOK
	})
}

// idleGoroutines returns the number of goroutines without requests.
func (g *gateway) idleGoroutines(t *testing.T) (n float64) {
	t.Helper()
	testkit.Eventually(t, "the number of goroutines is stable", func() bool {
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
	l := load{gateways: []*gateway{g}, paths: []string{soon}, rate: 25, clients: mostClients} // one method: each has its breaker
	const open, closed = "the breaker is open", "the breaker is closed"
	all := l.through(t,
		phase{"usual", nil, nil, either(3*time.Second, time.Second/2)},
		phase{open, func() { b.Freeze(t) }, func() bool { return g.breakers(t, "open", "fleet") }, either(8*time.Second, time.Second)},
		phase{closed, func() { b.Thaw(t) }, func() bool { return g.breakers(t, "closed", "fleet") }, either(3*time.Second, time.Second/2)},
	)
	within(t, "until the breaker of a frozen process was open", all.took(open), 3*time.Second)
	within(t, fmt.Sprintf("median of %d requests from then on", len(all.in(open))), all.in(open).percentile(.5), 10*time.Millisecond)
	within(t, "until it was closed, after the process continued", all.took(closed), 10*time.Second)
	noneFailed(t, all.in(closed))
}

// A service returns Unavailable for 30 s, at several request rates, and without a breaker. The short form omits low rates, because
// the initial burst of retries would dominate.
func TestRetriesAreLimitedDuringOutage(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	cases := []struct {
		rate         float64
		what, config string
		attempts     atomic.Int64
		end          func() responses
	}{
		{rate: 300, what: "300 requests a second"},
		{rate: 300, what: "the same without a breaker", config: "upstream_calls: {breaker: {min_requests: 100000}}\n"},
		{rate: 10, what: "10 a second"},
		{rate: 2, what: "2 a second"},
	}
	cases = cases[:either(4, 2)]
	for i := range cases {
		c := &cases[i]
		l := allReads(t, startGateway(t, everyService(startFake(t, func(context.Context) error {
			c.attempts.Add(1)
			return status.Error(codes.Unavailable, "unavailable")
		})), c.config+unlimited), c.rate)
		l.clients, l.duration = 16, either(30*time.Second, 4*time.Second)
		c.end = l.start(t)
	}
	for i := range cases {
		c := &cases[i]
		all := c.end()
		expectNone(t, "responses other than 503", len(all.except(http.StatusServiceUnavailable)))
		ratio, bound := float64(c.attempts.Load())/float64(len(all)), 1.2
		if !*full { // a slow machine makes few requests, to which each of the four services adds a burst of ten retries
			bound = 1 + 40/float64(len(all))
		}
		report(t, "attempts ÷ requests, "+c.what, fmt.Sprintf("%d ÷ %d = %.2f", c.attempts.Load(), len(all), ratio),
			fmt.Sprintf("at most %.2f", bound))
		if !(ratio > 0 && ratio <= bound) {
			t.Errorf("%s: %.2f", c.what, ratio)
		}
	}
}
