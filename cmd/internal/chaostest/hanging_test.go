package chaostest

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

const soon, late = "/v1/servers/" + unknown, "/v1/server-groups"

// deadline is that of a path. In the short form it is one that a busy machine does not miss where nothing hangs.
func deadline(path string) time.Duration {
	if path == soon {
		return either(time.Second, 3*time.Second)
	}
	return either(2*time.Second, 4*time.Second)
}

// hanging gives every operation the deadline of late, and that of soon its own.
func hanging() string {
	return fmt.Sprintf("http: {request_timeout: %v}\nroutes: {v1GetServer: {timeout: %v}}\n", deadline(late), deadline(soon))
}

// Nothing comes back over the wire to one service, in a gateway that has no breaker to speak of.
func TestBackendHangs(t *testing.T) {
	parallel(t)
	w := newLink(t, shared.address)
	behind := everyService(shared.address)
	behind.fleet = w.address()
	g := startGateway(t, behind, hanging()+"upstream_calls: {breaker: {min_requests: 100000}}\n"+unlimited)
	l := load{gateways: []*gateway{g}, tokens: texts(t, "full"), paths: []string{soon, late}, rate: 25, clients: mostClients}
	l.duration = either(3*time.Second, time.Second/2)
	noneFailed(t, "12", l.run(t))
	before := g.idleGoroutines(t)

	w.addToxic(t, `{"type": "timeout", "attributes": {"timeout": 0}}`)
	l.duration = either(15*time.Second, time.Second)
	wait := l.start(t)
	sleep(t, l.duration)
	most := g.metric(t, "go_goroutines")
	all := wait()
	w.removeToxics(t)
	ended := time.Now()
	eventually(t, "the goroutines are as few as before", func() bool { return g.metric(t, "go_goroutines") <= 1.05*before })
	within(t, "12", fmt.Sprintf("until goroutines, %v before and %v at most, were within 5 %% of before", before, most),
		time.Since(ended), 10*time.Second)
	expectNone(t, "12", fmt.Sprintf("answers other than 504, of %d", len(all)), len(all.filter(func(a answer) bool {
		return a.status != http.StatusGatewayTimeout
	})))
	var furthest time.Duration
	for _, a := range all {
		furthest = max(furthest, (a.took - deadline(a.path)).Abs())
	}
	within(t, "12", fmt.Sprintf("from the deadline of %v or %v, the furthest", deadline(soon), deadline(late)), furthest, 100*time.Millisecond)
	eventually(t, "the service is back", func() bool {
		return fetch(t.Context(), http.DefaultClient, g.url+late, l.tokens["full"]).status == http.StatusOK
	})
}

// calm returns how many goroutines there are when none is any request's.
func (g *gateway) idleGoroutines(t *testing.T) (n float64) {
	t.Helper()
	eventually(t, "the goroutines stay as many", func() bool {
		before := n
		n = g.metric(t, "go_goroutines")
		if n != before {
			sleep(t, 200*time.Millisecond)
		}
		return n == before
	})
	return n
}

// A process is frozen that was alone. Time-outs open the breaker, and then only what tries it waits.
func TestBreakerOpensOnTimeouts(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	behind := everyService(shared.address)
	behind.fleet = b.address
	g := startGateway(t, behind, hanging()+unlimited)
	l := load{gateways: []*gateway{g}, tokens: texts(t, "full"), paths: []string{soon, late}, rate: 25, clients: mostClients}
	end := l.begin(t)
	sleep(t, either(3*time.Second, time.Second/2))
	b.freeze(t)
	at := time.Now()
	eventually(t, "the breaker is open", func() bool { return g.breakers(t, "open", "fleet") })
	open := time.Now()
	sleep(t, either(8*time.Second, time.Second))
	b.thaw(t)
	thawed := time.Now()
	eventually(t, "the breaker is closed", func() bool { return g.breakers(t, "closed", "fleet") })
	closed := time.Now()
	sleep(t, either(3*time.Second, time.Second/2))
	all := end()
	within(t, "12", "until the breaker was open, of a process that was frozen", open.Sub(at), 3*time.Second)
	during := all.between(open, thawed)
	within(t, "12", fmt.Sprintf("median of %d requests from then on", len(during)), during.percentile(.5), 10*time.Millisecond)
	within(t, "12", "until it was closed, from when the process was thawed", closed.Sub(thawed), 10*time.Second)
	noneFailed(t, "12", all.between(closed, time.Now()))
}
