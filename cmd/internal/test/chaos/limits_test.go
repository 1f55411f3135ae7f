package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Two gateways without a shared store exceed the limit: its row in TestSharedLimits can fail.
func TestTwoGatewaysWithoutRedisAdmitTwiceTheLimit(t *testing.T) {
	gateways := startTwo(t, "rate_limit:\n  limits: [{requests: 3, per: 1s}]\n")
	all := load{gateways: gateways, clients: 4}.during(t, 1500*time.Millisecond)
	if n := all.maxIn(time.Second); n <= 3 {
		t.Errorf("%d admitted in a second", n)
	}
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
	within(t, fmt.Sprintf("until %d clients of a token had %d requests each admitted", clients, requests),
		took, time.Duration(either(1.3, 1.6)*float64(ideal)))
	atMost(t, fmt.Sprintf("denials of %d requests", clients*requests), len(all.refused()), either(20, 25)*clients*requests/10)
}
