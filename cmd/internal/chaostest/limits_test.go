package chaostest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"opsgate/ratelimit/redisstore/redistest"
)

func TestTwoGatewaysAdmitAsOne(t *testing.T) {
	server := redistest.Start(t)
	gateways := startTwo(t, inRedis(server, "  limits: [{requests: 3, per: 1s}]\n"+recorded))
	duration := either(20*time.Second, 3*time.Second)
	all := load{gateways: gateways, tokens: texts(t, "full"), clients: 20, duration: duration}.run(t)
	noneFailed(t, "1", all)
	d := decisions(t, gateways)[tokens(t)["full"].ID]
	expectNone(t, "1", "admitted without Redis", d.local)
	atMost(t, "1", "admitted in any second, by Redis' clock", maxIn(d.admitted, time.Second), 3)
	least := int(3*duration.Seconds()) - 3
	report(t, "1", fmt.Sprintf("admitted in %v", duration), len(d.admitted), fmt.Sprint("at least ", least))
	if len(d.admitted) < least || len(d.admitted) != len(all.admitted()) {
		t.Errorf("%d admitted, %d seen by clients", len(d.admitted), len(all.admitted()))
	}
}

// Without a store that they share, two gateways admit twice as much, and the test before this one would notice.
func TestTwoGatewaysWithoutRedisDoNot(t *testing.T) {
	gateways := startTwo(t, "rate_limit:\n  limits: [{requests: 3, per: 1s}]\n"+recorded)
	all := load{gateways: gateways, tokens: texts(t, "full"), clients: 4, duration: 1500 * time.Millisecond}.run(t)
	admitted := decisions(t, gateways)[tokens(t)["full"].ID].admitted
	if n := maxIn(admitted, time.Second); n <= 3 || len(admitted) != len(all.admitted()) {
		t.Errorf("%d admitted in a second; %d in all, %d seen by clients", n, len(admitted), len(all.admitted()))
	}
}

// Nine tokens ask twice a second each, as one alone would need minutes for a p99; the tenth of their team floods both gateways.
func TestANoisyTokenIsFeltByNoOther(t *testing.T) {
	server := redistest.Start(t)
	limit := either(3, 10) // a busy machine has requests that were due one after the other sent at once
	gateways := startTwo(t, inRedis(server, fmt.Sprintf("  limits: [{requests: %d, per: 1s}]\n", limit)))
	calm := texts(t, "read", "none", "servers:read", "metrics:read", "scheduled-commands:read", "commands:read", "monitors:read",
		"incidents:read", "audit:read")
	each := either(2.0, 1) // requests a second
	beside := load{gateways: gateways, tokens: calm, rate: each * float64(len(calm)), clients: 16, duration: either(20*time.Second, 2*time.Second)}
	warm := beside
	warm.duration = time.Second
	warm.run(t)
	alone := beside.run(t)
	noise := load{gateways: gateways, tokens: texts(t, "full"), rate: 500, clients: 32, duration: beside.duration}.start(t)
	disturbed := beside.run(t)
	noisy := noise()
	noneFailed(t, "5", append(noisy, disturbed...))
	expectNone(t, "5", "refusals of the others", len(disturbed.refused()))
	if len(noisy.refused()) < len(noisy)/2 {
		t.Errorf("only %d of %d refused: no noise", len(noisy.refused()), len(noisy))
	}
	usual := alone.percentile(.99)
	within(t, "5", fmt.Sprintf("p99 of the others (%v without the noise)", tenths(usual)), disturbed.percentile(.99), 2*usual)
}

// In the short form each client sends one request, and on a busy machine some may miss their second. Without slots, they are denied 2.9
// times a request then, and 5.4 times in the full form.
func TestClientsThatObeyShareTheRate(t *testing.T) {
	const clients, rate = 20, 3
	requests := either(3, 1) // of each client
	limits := fmt.Sprintf("rate_limit:\n  limits: [{requests: %d, per: 1s}, {requests: 5000, per: 1h}]\n", rate)
	g := startGateway(t, everyService(shared.address), limits)
	token := texts(t, "full")["full"]
	client := newClient(t, nil)
	each := make([]answers, clients)
	began := time.Now()
	var busy sync.WaitGroup
	for i := range each {
		busy.Go(func() {
			for admitted := 0; admitted < requests; {
				a := fetch(t.Context(), client, somewhere(g.url), token)
				each[i] = append(each[i], a)
				if a.isAdmitted() {
					admitted++
					continue
				}
				seconds, err := strconv.Atoi(a.retryAfter)
				if err != nil || a.status != http.StatusTooManyRequests {
					t.Errorf("got %+v", a)
					return
				}
				sleep(t, time.Duration(seconds)*time.Second)
			}
		})
	}
	busy.Wait()
	took := time.Since(began)
	all := slices.Concat(each...)
	if len(all.admitted()) != clients*requests {
		t.Fatalf("%d requests were admitted", len(all.admitted()))
	}
	ideal := clients * time.Duration(requests) * time.Second / rate
	within(t, "23", fmt.Sprintf("until %d clients of a token had %d requests each admitted", clients, requests),
		took, time.Duration(either(1.3, 1.6)*float64(ideal)))
	atMost(t, "23", fmt.Sprintf("denials of %d requests", clients*requests), len(all.refused()), either(20, 25)*clients*requests/10)
}
