package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
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

// timeToLastFailure returns the time from since to the last failed request.
func (all responses) timeToLastFailure(since time.Time) time.Duration {
	failed := all.failed()
	if len(failed) == 0 {
		return 0
	}
	return max(0, failed[len(failed)-1].sent.Sub(since))
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

// read returns the services of reads.
func read() []string { return []string{"fleet", "monitoring", "incident", "audit"} }

// All services are killed. A client with a limit of 20 per hour makes requests during the outage,
// and all of them are refunded.
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

// checkRefunds checks that every failed request was refunded, and that the limited token has its
// limit left.
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
