package chaos

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

func TestTwoGatewaysShareOneLimit(t *testing.T) {
	server := redistest.Start(t)
	gateways := startTwo(t, inRedis(server, "  limits: [{requests: 3, per: 1s}]\n"+recorded))
	duration := either(20*time.Second, 3*time.Second)
	all := load{gateways: gateways, clients: 20}.during(t, duration)
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

// Two gateways without a shared store exceed the limit: TestTwoGatewaysShareOneLimit can fail.
func TestTwoGatewaysWithoutRedisAdmitTwiceTheLimit(t *testing.T) {
	gateways := startTwo(t, "rate_limit:\n  limits: [{requests: 3, per: 1s}]\n"+recorded)
	all := load{gateways: gateways, clients: 4}.during(t, 1500*time.Millisecond)
	admitted := decisions(t, gateways)[tokens(t)["full"].ID].admitted
	if n := maxIn(admitted, time.Second); n <= 3 || len(admitted) != len(all.admitted()) {
		t.Errorf("%d admitted in a second; %d in all, %d seen by clients", n, len(admitted), len(all.admitted()))
	}
}

// Nine tokens make two requests per second each, while a tenth token of the team makes 500.
func TestBusyTokenDoesNotAffectOthers(t *testing.T) {
	skipIfShort(t)
	server := redistest.Start(t)
	limit := either(3, 10) // a slow machine sends delayed requests in bursts
	gateways := startTwo(t, inRedis(server, fmt.Sprintf("  limits: [{requests: %d, per: 1s}]\n", limit)))
	others := texts(t, "read", "none", "servers:read", "metrics:read", "scheduled-commands:read", "commands:read", "monitors:read",
		"incidents:read", "audit:read")
	each := either(2.0, 1) // requests a second
	usual := load{gateways: gateways, tokens: others, rate: each * float64(len(others)), clients: 16}
	duration := either(20*time.Second, 2*time.Second)
	usual.during(t, time.Second)
	alone := usual.during(t, duration)
	stop := load{gateways: gateways, rate: 500, clients: 32}.start(t)
	disturbed := usual.during(t, duration)
	busy := stop()
	noneFailed(t, "5", append(busy, disturbed...))
	expectNone(t, "5", "refusals of the others", len(disturbed.refused()))
	if len(busy.refused()) < len(busy)/2 {
		t.Errorf("only %d of %d requests of the busy token denied", len(busy.refused()), len(busy))
	}
	before := alone.percentile(.99)
	within(t, "5", fmt.Sprintf("p99 of the others (%v without the busy token)", tenths(before)), disturbed.percentile(.99), 2*before)
}

// 20 clients of one token wait for the time in retry-after. If all clients got the same time, each request would be denied 2.9 times in the
// short form, and 5.4 times in the full form.
func TestClientsThatHonorRetryAfterShareTheRate(t *testing.T) {
	skipIfShort(t)
	const clients, rate = 20, 3
	requests := either(3, 1) // of each client
	limits := fmt.Sprintf("rate_limit:\n  limits: [{requests: %d, per: 1s}, {requests: 5000, per: 1h}]\n", rate)
	g := startGateway(t, everyService(shared.address), limits)
	token := texts(t, "full")["full"]
	client := newClient(t, nil)
	each := make([]responses, clients)
	began := time.Now()
	var running sync.WaitGroup
	for i := range each {
		running.Go(func() {
			for admitted := 0; admitted < requests; {
				a := fetch(t.Context(), client, g.url+unknownServer, token)
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
	running.Wait()
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
