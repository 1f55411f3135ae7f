package chaostest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// breakers tells whether the breakers of all these services are in a state.
func (g *gateway) breakers(t *testing.T, state string, services ...string) bool {
	t.Helper()
	for _, service := range services {
		if g.metric(t, fmt.Sprintf("opsgate_upstream_breaker_state{service=%q,state=%q}", service, state)) == 0 {
			return false
		}
	}
	return true
}

// read are the services of reads.
func read() []string { return []string{"fleet", "monitoring", "incident", "audit"} }

// Everything behind the gateway is killed, tokens and all. A client with twenty requests an hour goes on asking all the while, and
// has spent none of them in the end.
func TestAllBackendsAreAway(t *testing.T) {
	parallel(t)
	const hourly = 20
	b := startBackend(t)
	g := startGateway(t, everyService(b.address), fmt.Sprintf("upstream_calls: {breaker: {open_for: %v}}\nrate_limit:\n"+
		"  limits: [{requests: 1000000, per: 1s}]\n  tokens: {%s: {limits: [{requests: %d, per: 1h}]}}\n",
		either(3*time.Second, time.Second), tokens(t)["read"].ID, hourly))
	poor := load{gateways: []*gateway{g}, tokens: texts(t, "read"), paths: reads(), rate: 20, clients: 4}
	if known := fetch(t.Context(), http.DefaultClient, g.url+"/v1/me", poor.tokens["read"]); known.status != http.StatusOK {
		t.Fatalf("%+v", known)
	}
	end := allReads(t, g, either(300.0, 100)).begin(t)
	sleep(t, either(3*time.Second, time.Second))
	gone := time.Now()
	b.kill(t)
	endPoor := poor.begin(t)
	eventually(t, "all breakers are open", func() bool { return g.breakers(t, "open", read()...) })
	open := time.Now()
	sleep(t, either(10*time.Second, 2*time.Second))
	poorly, back := endPoor(), time.Now()
	b.restart(t)
	returned := time.Now()
	eventually(t, "all breakers are closed", func() bool { return g.breakers(t, "closed", read()...) })
	closed := time.Now()
	sleep(t, either(3*time.Second, time.Second/2))
	all := end()

	noneFailed(t, "11", all.filter(func(a answer) bool { return a.sent.Add(a.took).Before(gone) }))
	within(t, "11", "until all breakers were open", open.Sub(gone), time.Second)
	during := all.between(open, back)
	usual := all.between(time.Time{}, gone).percentile(.99)
	within(t, "11", fmt.Sprintf("p99 of %d requests from then on (%v before)", len(during), tenths(usual)),
		during.percentile(.99), 10*time.Millisecond)
	expectNone(t, "11", "answers from then on other than 503 with retry-after", len(during.filter(func(a answer) bool {
		return a.status != http.StatusServiceUnavailable || a.retryAfter == ""
	})))
	within(t, "11", "until all were closed, from when the backend was back", closed.Sub(returned), 10*time.Second)
	noneFailed(t, "11", all.between(closed, time.Now()))
	unspent(t, g, poorly, len(all.failed()), hourly)
}

// unspent holds that nobody paid for an outage.
func unspent(t *testing.T, g *gateway, poorly answers, failed, hourly int) {
	t.Helper()
	expectNone(t, "11", fmt.Sprintf("of %d requests of a token with %d an hour, refused by its limit", len(poorly), hourly), len(poorly.refused()))
	eventually(t, "all refunds have been sent", func() bool {
		return int(g.metric(t, "opsgate_rate_limit_refunds_total")) >= failed+len(poorly.failed())
	})
	report(t, "11", "requests given back", g.metric(t, "opsgate_rate_limit_refunds_total"), failed+len(poorly.failed()))
	if given := int(g.metric(t, "opsgate_rate_limit_refunds_total")); given != failed+len(poorly.failed()) {
		t.Errorf("%d failed and %d were given back", failed+len(poorly.failed()), given)
	}
	if len(poorly) <= hourly {
		t.Errorf("only %d requests of a token with %d an hour", len(poorly), hourly)
	}
	last := fetch(t.Context(), http.DefaultClient, g.url+"/v1/me", texts(t, "read")["read"])
	want := fmt.Sprintf(`"hour";r=%d;`, hourly-2) // this one and the one before the outage
	report(t, "11", "what is left of that token's hour, after one request before the outage and one since", last.rateLimit, want)
	if !strings.HasPrefix(last.rateLimit, want) {
		t.Errorf("left is %s, want %s", last.rateLimit, want)
	}
}
