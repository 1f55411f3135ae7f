package failover_test

import (
	"flag"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// checkInBubbles checks a property in bubbles of synctest. In one of them, rapid makes no more checks after 24 hours of the bubble's time.
func checkInBubbles(t *testing.T, property func(t *rapid.T)) {
	t.Helper()
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for made < checks && !t.Failed() {
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) {
				made++
				property(t)
			})
		})
	}
	t.Logf("%d checks", made)
}

// A schedule of outages of all kinds, and one gateway: whatever was admitted is known when all is well again, and nothing else.
func TestOverAnyScheduleNothingIsLostOrCountedTwice(t *testing.T) {
	p := ratelimittest.Policy(t, limit("second", 20, time.Second), limit("hour", 2000, time.Hour))
	hour := ratelimittest.Policy(t, limit("hour", 2000, time.Hour))
	checkInBubbles(t, func(t *rapid.T) {
		s := newShared(time.Now)
		store := newStore(t, failover.Options{Shared: s})
		defer run(t, store)()
		admissions := map[string]int{}
		for _, token := range []string{"one", "two"} {
			admissions[token] = admitted(t, store, token, p, 1) // it knows them from the beginning
		}
		request := func(t *rapid.T) {
			token := rapid.SampledFrom([]string{"one", "one", "two"}).Draw(t, "token")
			for range rapid.IntRange(1, 30).Draw(t, "requests") {
				if decide(t, store, token, p).Allowed {
					admissions[token]++
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": request,
			"more":    request,
			"wait": func(t *rapid.T) {
				time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"go":      func(*rapid.T) { s.become(gone) },
			"freeze":  func(*rapid.T) { s.become(frozen) },
			"return":  func(*rapid.T) { s.become(well) },
			"restart": func(t *rapid.T) { restart(t, s, p, store) },
			"sweep":   func(*rapid.T) { store.Sweep() },
		})
		s.become(well)
		awaitShared(t, store)
		for token := range admissions {
			if decide(t, store, token, p).Allowed {
				admissions[token]++
			}
			// A store that thaws decides on requests that this gateway has decided as well, and merges uploads whose outcome it has taken
			// to be unknown and sent again.
			n, late := s.used(token, hour), s.lateSince(token, time.Time{})
			if n < admissions[token] || n > admissions[token]+late && s.moved == 0 {
				t.Fatalf("%d are counted of %s, and %d were admitted; %d late", n, token, admissions[token], late)
			}
		}
	})
}

// restart has a store that is gone come back with nothing. All see it once while it is gone.
func restart(t rapid.TB, s *sharedStore, p *ratelimit.Policy, gateways ...*failover.Store) {
	t.Helper()
	s.mu.Lock()
	how := s.how
	s.mu.Unlock()
	if how != gone {
		return
	}
	for _, g := range gateways {
		for was := s.refused.Load(); g.State().Mode == ratelimit.ModeShared && s.refused.Load() == was; time.Sleep(uploadEvery) {
			decide(t, g, "scout", p)
		}
	}
	s.lose()
	s.become(well)
}

// A pair is two gateways that share a store, and when a token was admitted by either.
type pair struct {
	stores [2]*failover.Store
	policy *ratelimit.Policy
	times  []time.Time
	stop   func()
}

func startPair(t *rapid.T, s *sharedStore, p *ratelimit.Policy) *pair {
	t.Helper()
	half := failover.Options{Shared: s, Settings: failover.Settings{Replicas: 2}}
	g := &pair{stores: [2]*failover.Store{newStore(t, half), newStore(t, half)}, policy: p}
	one, other := run(t, g.stores[0]), run(t, g.stores[1])
	g.stop = func() {
		one()
		other()
	}
	return g
}

// ask asks them in turn, forty times a second.
func (g *pair) ask(t *rapid.T, requests int) {
	t.Helper()
	for i := range requests {
		if decide(t, g.stores[i%2], "t", g.policy).Allowed {
			g.times = append(g.times, time.Now())
		}
		time.Sleep(25 * time.Millisecond)
	}
}

func (g *pair) atMost(t *rapid.T, most int, within time.Duration) {
	t.Helper()
	for i, at := range g.times {
		if i+most < len(g.times) && g.times[i+most].Sub(at) < within {
			t.Fatalf("%d admitted within %v", most+1, g.times[i+most].Sub(at))
		}
	}
}

// Two outages that are a few seconds apart, and two gateways: together they pass the limit by a twentieth at most, and when all has been
// well for as long as the limit looks back, nobody is refused falsely.
func TestOverAnyScheduleGatewaysKeepTheLimitTogether(t *testing.T) {
	p := ratelimittest.Policy(t, limit("second", 10, time.Second), limit("minute", 240, time.Minute))
	checkInBubbles(t, func(t *rapid.T) {
		s := newShared(time.Now)
		g := startPair(t, s, p)
		defer g.stop()
		for range rapid.IntRange(1, 2).Draw(t, "outages") {
			g.ask(t, rapid.IntRange(120, 1000).Draw(t, "requests before")) // at least three seconds
			s.become(rapid.SampledFrom([]int{gone, frozen}).Draw(t, "how"))
			g.ask(t, rapid.IntRange(1, 1000).Draw(t, "requests in it"))
			if rapid.Bool().Draw(t, "lost") {
				restart(t, s, p, g.stores[:]...)
			}
			s.become(well)
		}
		g.atMost(t, 252, time.Minute)
		s.become(well)
		awaitShared(t, g.stores[0])
		awaitShared(t, g.stores[1])
		time.Sleep(62 * time.Second)
		if n := admitted(t, g.stores[0], "t", p, 5) + admitted(t, g.stores[1], "t", p, 10); n != 10 {
			t.Fatalf("%d admitted after a rest", n)
		}
	})
}

// While one gateway is back and the other is not yet, or decides on a token by itself for a moment longer, they admit what both know of.
func TestOverAnyReturnGatewaysKeepAShortLimitTogether(t *testing.T) {
	p := ratelimittest.Policy(t, limit("second", 10, time.Second))
	checkInBubbles(t, func(t *rapid.T) {
		s := newShared(time.Now)
		g := startPair(t, s, p)
		defer g.stop()
		g.ask(t, 120)
		s.become(rapid.SampledFrom([]int{gone, frozen}).Draw(t, "how"))
		for g.stores[0].State().Mode == ratelimit.ModeShared || g.stores[1].State().Mode == ratelimit.ModeShared {
			g.ask(t, 2)
		}
		g.ask(t, 2*rapid.IntRange(0, 60).Draw(t, "requests of each in it"))
		s.become(well)
		g.ask(t, 160) // four seconds
		g.atMost(t, 12, time.Second)
	})
}
