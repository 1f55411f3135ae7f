package failover_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// A fleet is several gateways that share a store.
type fleet struct {
	shared *sharedStore
	stores []*failover.Store
	policy *ratelimit.Policy
	turn   int // of the next gateway
}

// startFleet starts gateways that run until stop is called.
func startFleet(t rapid.TB, p *ratelimit.Policy, gateways int) (f *fleet, stop func()) {
	t.Helper()
	f = &fleet{shared: newShared(), policy: p}
	var stops []func()
	for range gateways {
		s := newStore(t, failover.Options{Shared: f.shared, Settings: failover.Settings{Gateways: gateways}})
		f.stores = append(f.stores, s)
		stops = append(stops, run(t, s))
	}
	return f, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// request makes a request of each token within an interval, at the next gateway, and fails the test if one is denied.
func (f *fleet) request(t rapid.TB, tokens int, interval time.Duration) {
	t.Helper()
	began := time.Now()
	for i := range tokens {
		token := fmt.Sprint("token ", i)
		if d := decide(t, f.stores[(f.turn+i)%len(f.stores)], token, f.policy); !d.Allowed && !f.isDeniedByLateCalls(token, d) {
			t.Fatalf("%s was denied: %+v", token, d)
		}
		time.Sleep(time.Until(began.Add(interval * time.Duration(i+1) / time.Duration(tokens))))
	}
	f.turn++
}

// isDeniedByLateCalls reports whether calls that the shared store executed late used up the unused half of a limit.
func (f *fleet) isDeniedByLateCalls(token string, d ratelimit.Decision) bool {
	l := f.policy.Limits()[d.DeniedBy]
	return f.shared.lateSince(token, time.Now().Add(-l.Per-l.Per/60)) >= l.Requests-l.Requests/2
}

// 40 tokens make two requests in three seconds, at two gateways in turn, less than a quarter of what their limits allow, while the shared
// store is restarted empty and hangs.
func TestTokensWithinTheirLimitsAreNotDeniedInOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ratelimittest.Policy(t, limit("second", 3, time.Second), limit("hour", 5000, time.Hour))
		f, stop := startFleet(t, p, 2)
		defer stop()
		for _, step := range []func(){
			func() {},
			func() { f.shared.become(refusing) },
			func() { f.shared.lose(); f.shared.become(working) },
			func() { f.shared.become(hanging) },
			func() { f.shared.become(working) },
		} {
			step()
			for range 8 {
				f.request(t, 40, 1500*time.Millisecond)
			}
		}
		for _, s := range f.stores {
			if st := s.State(); st.Mode != ratelimit.ModeShared {
				t.Errorf("at the end: %+v", st)
			}
		}
		if n := f.shared.uploads.Load(); n == 0 {
			t.Error("nothing was uploaded: there was no outage")
		}
	})
}

// Guarantee 10 of docs/operate/store-failure.md: a token that uses at most half of each limit, evenly spread over two to five gateways, is
// not denied in any schedule of outages.
func TestTokensWithinTheirLimitsAreNotDeniedInAnyOutage(t *testing.T) {
	checkInBubbles(t, func(t *rapid.T) {
		of := rapid.SampledFrom([]struct {
			limits []ratelimit.Limit
			every  time.Duration // of a token that uses half of the scarcest limit
		}{
			{[]ratelimit.Limit{limit("second", 3, time.Second), limit("hour", 5000, time.Hour)}, 1440 * time.Millisecond},
			{[]ratelimit.Limit{limit("second", 10, time.Second)}, 200 * time.Millisecond},
			{[]ratelimit.Limit{limit("minute", 100, time.Minute)}, 1200 * time.Millisecond},
			{[]ratelimit.Limit{limit("second", 5, time.Second), limit("minute", 64, time.Minute)}, 1875 * time.Millisecond},
			{[]ratelimit.Limit{limit("half a minute", 70, 30*time.Second), limit("minute", 240, time.Minute)}, 860 * time.Millisecond},
		}).Draw(t, "limits")
		p := ratelimittest.Policy(t, of.limits...)
		f, stop := startFleet(t, p, rapid.IntRange(2, 5).Draw(t, "gateways"))
		defer stop()
		tokens := rapid.IntRange(1, 12).Draw(t, "tokens")
		request := func(t *rapid.T) {
			for range rapid.IntRange(1, 40).Draw(t, "requests of each token") {
				f.request(t, tokens, of.every)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": request,
			"more":    request,
			"again":   request,
			"outage": func(t *rapid.T) {
				f.shared.become(rapid.SampledFrom([]condition{refusing, hanging, unreachable}).Draw(t, "condition"))
				if rapid.Bool().Draw(t, "lost") {
					f.shared.lose()
				}
			},
			"return": func(*rapid.T) { f.shared.become(working) },
		})
	})
}

// In an outage, a token at one of n gateways has at least limit/n, rounded down, in every window, and the whole limit in n windows.
func TestTokenAtOneGatewayHasItsShare(t *testing.T) {
	checkInBubbles(t, func(t *rapid.T) {
		replicas, requests := rapid.IntRange(1, 5).Draw(t, "gateways"), rapid.IntRange(1, 130).Draw(t, "requests")
		p := ratelimittest.Policy(t, limit("second", requests, time.Second))
		s := newShared()
		store := newStore(t, failover.Options{Shared: s, Settings: failover.Settings{Gateways: replicas}})
		s.become(refusing)
		beginOutage(t, store, p)
		var first, all int
		for second := range replicas {
			began := time.Now()
			n := admitted(t, store, "t", p, requests+1)
			if second == 0 {
				first = n
			}
			all += n
			// buckets of larger limits are 17 ms
			time.Sleep(time.Until(began.Add(time.Second + 17*time.Millisecond)))
		}
		if up := (requests + replicas - 1) / replicas; first != up || all > up*replicas || all < requests {
			t.Errorf("%d of %d for %d gateways in the first window, %d in %d windows", first, requests, replicas, all, replicas)
		}
	})
}
