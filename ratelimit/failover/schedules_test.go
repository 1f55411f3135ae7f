package failover_test

import (
	"flag"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// checkInBubbles checks a property in bubbles of synctest. In one bubble, rapid stops after 24 hours of the bubble's time.
func checkInBubbles(t *testing.T, property func(t *rapid.T)) {
	t.Helper()
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	testkit.Must(t, err)
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

// After any schedule of outages, the shared store counts every admission of a gateway once.
func TestEveryAdmissionCountsOnceAfterAnySchedule(t *testing.T) {
	p := ratelimittest.Policy(t, limit("second", 20, time.Second), limit("hour", 2000, time.Hour))
	hour := ratelimittest.Policy(t, limit("hour", 2000, time.Hour))
	checkInBubbles(t, func(t *rapid.T) {
		s := newShared()
		store := newStore(t, failover.Options{Shared: s})
		defer run(t, store)()
		admissions := map[string]int{}
		for _, token := range []string{"one", "two"} {
			admissions[token] = admitted(t, store, token, p, 1) // their accounts are cached before the first outage
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
			"go":      func(*rapid.T) { s.become(refusing) },
			"freeze":  func(*rapid.T) { s.become(hanging) },
			"return":  func(*rapid.T) { s.become(working) },
			"restart": func(t *rapid.T) { restart(t, s, p, store) },
			"sweep":   func(*rapid.T) { store.Sweep() },
		})
		s.become(working)
		awaitRecovery(t, store)
		for token := range admissions {
			if decide(t, store, token, p).Allowed {
				admissions[token]++
			}
			// A store that hung executes requests that this gateway has decided as well, and uploads that it has repeated.
			n, late := s.used(token, hour), s.lateSince(token, time.Time{})
			if n < admissions[token] || n > admissions[token]+late && s.lateUploads == 0 {
				t.Fatalf("%d counted of %s, %d admitted, %d late", n, token, admissions[token], late)
			}
		}
	})
}

// restart empties a refusing store and makes it work, after each gateway has had an error.
func restart(t rapid.TB, s *sharedStore, p *ratelimit.Policy, gateways ...*failover.Store) {
	t.Helper()
	s.mu.Lock()
	condition := s.condition
	s.mu.Unlock()
	if condition != refusing {
		return
	}
	for _, g := range gateways {
		began := time.Now()
		for was := s.refused.Load(); g.State().Mode == ratelimit.ModeShared && s.refused.Load() == was; time.Sleep(uploadEvery) {
			if time.Since(began) > time.Minute {
				t.Fatalf("no call was refused within a minute: %+v", g.State())
			}
			decide(t, g, "probe", p)
		}
	}
	s.lose()
	s.become(working)
}

// A pair is two gateways that share a store, and the times at which either admitted a token.
type pair struct {
	stores   [2]*failover.Store
	policies [2]*ratelimit.Policy
	times    []time.Time
	stop     func()
}

func startPair(t *rapid.T, s *sharedStore, policies ...*ratelimit.Policy) *pair {
	t.Helper()
	o := failover.Options{Shared: s, Settings: failover.Settings{Gateways: 2}}
	g := &pair{stores: [2]*failover.Store{newStore(t, o), newStore(t, o)}, policies: [2]*ratelimit.Policy(policies)}
	one, other := run(t, g.stores[0]), run(t, g.stores[1])
	g.stop = func() {
		one()
		other()
	}
	return g
}

// request makes requests, forty per second, at both gateways in turn.
func (g *pair) request(t *rapid.T, requests int) {
	t.Helper()
	g.requestAt(t, requests, 0, 1)
}

func (g *pair) requestAt(t *rapid.T, requests int, gateways ...int) {
	t.Helper()
	for i := range requests {
		gateway := gateways[i%len(gateways)]
		if decide(t, g.stores[gateway], "t", g.policies[gateway]).Allowed {
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

// Two gateways exceed a limit by a twentieth at most in one or two outages. A minute after the last outage, the shared store admits as usual.
func TestTwoGatewaysKeepALimitInAnyOutage(t *testing.T) {
	p := ratelimittest.Policy(t, limit("second", 10, time.Second), limit("minute", 240, time.Minute))
	checkInBubbles(t, func(t *rapid.T) {
		s := newShared()
		g := startPair(t, s, p, p)
		defer g.stop()
		for range rapid.IntRange(1, 2).Draw(t, "outages") {
			g.request(t, rapid.IntRange(120, 1000).Draw(t, "requests before")) // at least three seconds
			s.become(rapid.SampledFrom([]condition{refusing, hanging}).Draw(t, "condition"))
			g.request(t, rapid.IntRange(1, 1000).Draw(t, "requests during the outage"))
			if rapid.Bool().Draw(t, "lost") {
				restart(t, s, p, g.stores[:]...)
			}
			s.become(working)
		}
		g.atMost(t, 252, time.Minute)
		s.become(working)
		awaitRecovery(t, g.stores[0])
		awaitRecovery(t, g.stores[1])
		time.Sleep(62 * time.Second)
		if n := admitted(t, g.stores[0], "t", p, 5) + admitted(t, g.stores[1], "t", p, 10); n != 10 {
			t.Fatalf("%d admitted a minute later", n)
		}
	})
}

// The limits of two gateways differ, and the token may use one of them alone. After any outage, the hour of one of them has the admissions of
// both.
func TestAdmissionsOfAnOutageCountWhileLimitsDiffer(t *testing.T) {
	minute, hour := ratelimittest.Policy(t, limit("minute", 300, time.Minute)), ratelimittest.Policy(t, limit("hour", 100_000, time.Hour))
	gateways := rapid.SampledFrom([][]int{{0, 1}, {0}, {1}})
	checkInBubbles(t, func(t *rapid.T) {
		s := newShared()
		g := startPair(t, s, minute, hour)
		defer g.stop()
		g.request(t, 3) // both know of the windows of both
		g.requestAt(t, rapid.IntRange(1, 1000).Draw(t, "requests before"), gateways.Draw(t, "at")...)
		time.Sleep(2 * time.Minute) // of the counts of one bucket, before and after a loss, the larger one applies
		s.become(rapid.SampledFrom([]condition{refusing, hanging}).Draw(t, "condition"))
		g.requestAt(t, rapid.IntRange(1, 1000).Draw(t, "requests during the outage"), gateways.Draw(t, "at")...)
		time.Sleep(2 * time.Minute)
		if rapid.Bool().Draw(t, "lost") {
			restart(t, s, minute, g.stores[:]...)
		}
		s.become(working)
		awaitRecovery(t, g.stores[0])
		awaitRecovery(t, g.stores[1])
		g.requestAt(t, rapid.IntRange(1, 1000).Draw(t, "requests after"), gateways.Draw(t, "at")...)
		g.requestAt(t, 2, 0, 1)
		n, late := s.used("t", hour), s.lateSince("t", time.Time{})
		if n < len(g.times) || n > len(g.times)+late && s.lateUploads == 0 {
			t.Fatalf("%d counted, %d admitted, %d late", n, len(g.times), late)
		}
	})
}

// One gateway may use the shared store again earlier than the other.
func TestTwoGatewaysKeepAShortLimitAfterAnyOutage(t *testing.T) {
	p := ratelimittest.Policy(t, limit("second", 10, time.Second))
	checkInBubbles(t, func(t *rapid.T) {
		s := newShared()
		g := startPair(t, s, p, p)
		defer g.stop()
		g.request(t, 120)
		s.become(rapid.SampledFrom([]condition{refusing, hanging}).Draw(t, "condition"))
		began := time.Now()
		for g.stores[0].State().Mode == ratelimit.ModeShared || g.stores[1].State().Mode == ratelimit.ModeShared {
			if time.Since(began) > time.Minute {
				t.Fatalf("no outage within a minute: %+v, %+v", g.stores[0].State(), g.stores[1].State())
			}
			g.request(t, 2)
		}
		g.request(t, 2*rapid.IntRange(0, 60).Draw(t, "requests of each during the outage"))
		s.become(working)
		g.request(t, 160) // four seconds
		g.atMost(t, 12, time.Second)
	})
}
