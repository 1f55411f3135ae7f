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

// A fleet is several gateways that share a store, and tokens that ask them in turn.
type fleet struct {
	shared *sharedStore
	stores []*failover.Store
	policy *ratelimit.Policy
	turn   int
}

// startFleet starts gateways that run until stop is called.
func startFleet(t rapid.TB, p *ratelimit.Policy, gateways int) (f *fleet, stop func()) {
	t.Helper()
	f = &fleet{shared: newShared(time.Now), policy: p}
	var stops []func()
	for range gateways {
		s := newStore(t, failover.Options{Shared: f.shared, Settings: failover.Settings{Replicas: gateways}})
		f.stores = append(f.stores, s)
		stops = append(stops, run(t, s))
	}
	return f, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// ask has each token ask once within an interval, evenly spread, and each token ask the gateways in turn. None must be denied.
func (f *fleet) ask(t rapid.TB, tokens int, interval time.Duration) {
	t.Helper()
	began := time.Now()
	for i := range tokens {
		token := fmt.Sprint("token ", i)
		if d := decide(t, f.stores[(f.turn+i)%len(f.stores)], token, f.policy); !d.Allowed && !f.lateDenies(token, d) {
			t.Fatalf("%s was denied: %+v", token, d)
		}
		time.Sleep(time.Until(began.Add(interval * time.Duration(i+1) / time.Duration(tokens))))
	}
	f.turn++
}

// lateDenies reports whether a token was denied as the shared store, when it thawed, counted so much of what gateways had decided as well
// that the spare half of the limit is used up.
func (f *fleet) lateDenies(token string, d ratelimit.Decision) bool {
	l := f.policy.Limits()[d.Denied]
	return f.shared.lateSince(token, time.Now().Add(-l.Per-l.Per/60)) >= l.Requests-l.Requests/2
}

// Two gateways, 40 tokens that each ask twice in three seconds, in turn: while the store dies, comes back empty, freezes and thaws, none of
// them is denied, though each uses less than a quarter of what a second allows.
func TestAnOutageDeniesNoTokenWithinItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ratelimittest.Policy(t, limit("second", 3, time.Second), limit("hour", 5000, time.Hour))
		f, stop := startFleet(t, p, 2)
		defer stop()
		for _, step := range []func(){
			func() {},
			func() { f.shared.become(gone) },
			func() { f.shared.lose(); f.shared.become(well) },
			func() { f.shared.become(frozen) },
			func() { f.shared.become(well) },
		} {
			step()
			for range 8 {
				f.ask(t, 40, 1500*time.Millisecond)
			}
		}
		for _, s := range f.stores {
			if st := s.State(); st.Mode != ratelimit.ModeShared {
				t.Errorf("in the end: %+v", st)
			}
		}
		if n := f.shared.uploads.Load(); n == 0 {
			t.Error("nothing was uploaded: there was no outage")
		}
	})
}

// Promise 10: over any schedule of outages, a token that uses at most half of each limit, evenly spread over two to five gateways, is not
// denied.
func TestOverAnyScheduleNoTokenWithinItsLimitsIsDenied(t *testing.T) {
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
		ask := func(t *rapid.T) {
			for range rapid.IntRange(1, 40).Draw(t, "requests of each token") {
				f.ask(t, tokens, of.every)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask":   ask,
			"more":  ask,
			"again": ask,
			"outage": func(t *rapid.T) {
				f.shared.become(rapid.SampledFrom([]int{gone, frozen, cut}).Draw(t, "how"))
				if rapid.Bool().Draw(t, "lost") {
					f.shared.lose()
				}
			},
			"return": func(*rapid.T) { f.shared.become(well) },
		})
	})
}

// A token that stays with one of several gateways has, in every window of an outage, at least its limit divided by their number, rounded
// down, and in as many windows as there are gateways the whole limit.
func TestATokenThatStaysHasItsShare(t *testing.T) {
	checkInBubbles(t, func(t *rapid.T) {
		replicas, requests := rapid.IntRange(1, 5).Draw(t, "gateways"), rapid.IntRange(1, 130).Draw(t, "requests")
		p := ratelimittest.Policy(t, limit("second", requests, time.Second))
		s := newShared(time.Now)
		store := newStore(t, failover.Options{Shared: s, Settings: failover.Settings{Replicas: replicas}})
		s.become(gone)
		leave(t, store, p)
		var first, all int
		for second := range replicas {
			began := time.Now()
			n := admitted(t, store, "t", p, requests+1)
			if second == 0 {
				first = n
			}
			all += n
			// A limit of many requests is counted in sixtieths of a second: that much longer is none admitted.
			time.Sleep(time.Until(began.Add(time.Second + 17*time.Millisecond)))
		}
		if up := (requests + replicas - 1) / replicas; first != up || all > up*replicas || all < requests {
			t.Errorf("%d of %d for %d gateways in the first window, %d in %d windows", first, requests, replicas, all, replicas)
		}
	})
}
