package failover_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// The properties of docs/operate/guarantees.md, "What remains" and "Redis", in any schedule of
// outages.

// checkInBubbles checks a property in bubbles of synctest. In one bubble, rapid stops after 24
// hours of the bubble's time.
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

// A fleet is several gateways that share a store, each by a link of its own.
type fleet struct {
	shared   *sharedStore
	links    []*link
	stores   []*failover.Store
	policy   *ratelimit.Policy
	admitted map[string][]time.Time
	turn     int // of the next gateway
}

// startFleet starts gateways that run until stop is called.
func startFleet(t rapid.TB, p *ratelimit.Policy, gateways int) (f *fleet, stop func()) {
	t.Helper()
	f = &fleet{shared: newShared(), policy: p, admitted: map[string][]time.Time{}}
	var stops []func()
	for range gateways {
		l := &link{sharedStore: f.shared}
		s := newStore(t, failover.Options{Shared: l, Settings: failover.Settings{Gateways: gateways}})
		f.links, f.stores = append(f.links, l), append(f.stores, s)
		stops = append(stops, run(t, s))
	}
	return f, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// decide makes a request of a token at a gateway.
func (f *fleet) decide(t rapid.TB, gateway int, token string) ratelimit.Decision {
	t.Helper()
	d := decide(t, f.stores[gateway], token, f.policy)
	if d.Allowed {
		f.admitted[token] = append(f.admitted[token], time.Now())
	}
	return d
}

// share returns what a gateway admits of a limit of which nothing is used.
func (f *fleet) share(requests int) int { return (requests + len(f.stores) - 1) / len(f.stores) }

// atMost fails the test if more are admitted of a token in any interval.
func (f *fleet) atMost(t rapid.TB, n int, within time.Duration) {
	t.Helper()
	for token, times := range f.admitted {
		for i, at := range times {
			if i+n < len(times) && times[i+n].Sub(at) < within {
				t.Fatalf("%d of %s admitted within %v, at most %d may be", n+1, token, times[i+n].Sub(at), n)
			}
		}
	}
}

// request makes a request of each token within an interval, at the next gateway, and fails the test
// if one is denied.
func (f *fleet) request(t rapid.TB, tokens int, interval time.Duration) {
	t.Helper()
	began := time.Now()
	for i := range tokens {
		token := fmt.Sprint("token ", i)
		if d := f.decide(t, (f.turn+i)%len(f.stores), token); !d.Allowed && !f.isDeniedByLateCalls(token, d) {
			t.Fatalf("%s was denied: %+v", token, d)
		}
		time.Sleep(time.Until(began.Add(interval * time.Duration(i+1) / time.Duration(tokens))))
	}
	f.turn++
}

// isDeniedByLateCalls reports whether calls that the shared store executed late used up the unused
// half of a limit.
func (f *fleet) isDeniedByLateCalls(token string, d ratelimit.Decision) bool {
	l := f.policy.Limits()[d.DeniedBy]
	return f.shared.lateSince(token, time.Now().Add(-l.Per-l.Per/60)) >= l.Requests-l.Requests/2
}

// A token that uses at most half of each limit, evenly spread over two to five gateways, is not
// denied.
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
		f, stop := startFleet(t, ratelimittest.Policy(t, of.limits...), rapid.IntRange(2, 5).Draw(t, "gateways"))
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
				f.shared.become(rapid.SampledFrom([]condition{refusing, failing, unreachable, hanging}).Draw(t, "condition"))
				if rapid.Bool().Draw(t, "lost") {
					f.shared.lose()
				}
			},
			"return": func(*rapid.T) { f.shared.become(working) },
		})
	})
}

// anyOutages makes requests of one token at any rate and at any gateways, while the shared store or
// a single link fails and works again. lost is the number of times that the shared store loses its
// data.
func anyOutages(t *rapid.T, f *fleet, lost int) {
	request := func(t *rapid.T) {
		gap := time.Duration(rapid.IntRange(1, 300).Draw(t, "ms between requests")) * time.Millisecond
		all := rapid.Bool().Draw(t, "at all gateways")
		for i := range rapid.IntRange(1, 60).Draw(t, "requests") {
			if gateway := (f.turn + i) % len(f.stores); all || gateway == 0 {
				f.decide(t, gateway, "t")
			}
			time.Sleep(gap)
		}
		f.turn++
	}
	failure := rapid.SampledFrom([]condition{refusing, failing, unreachable})
	t.Repeat(map[string]func(*rapid.T){
		"request": request,
		"more":    request,
		"burst": func(t *rapid.T) {
			for i := range rapid.IntRange(1, 60).Draw(t, "requests") {
				f.decide(t, i%len(f.stores), "t")
			}
		},
		"outage": func(t *rapid.T) { f.shared.become(failure.Draw(t, "condition")) },
		"return": func(*rapid.T) { f.shared.become(working) },
		"cut":    func(t *rapid.T) { f.links[0].cut.Store(rapid.Bool().Draw(t, "cut")) },
		"lose": func(t *rapid.T) {
			if lost == 0 {
				t.Skip("it keeps its data")
			}
			lost--
			f.shared.lose()
		},
	})
}

// In any window, the limit and one share of each gateway are admitted; one share more for each
// upload without an answer, and once more the limit if the shared store has lost its data.
func TestAdmissionsAreBoundedInAnyOutage(t *testing.T) {
	checkInBubbles(t, func(t *rapid.T) {
		requests, per := rapid.SampledFrom([]int{1, 3, 10, 64, 100}).Draw(t, "requests"), rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second}).Draw(t, "per")
		f, stop := startFleet(t, ratelimittest.Policy(t, limit("only", requests, per)), rapid.IntRange(1, 4).Draw(t, "gateways"))
		defer stop()
		lost := rapid.IntRange(0, 1).Draw(t, "losses of data")
		anyOutages(t, f, lost)
		f.atMost(t, requests*(1+lost)+(len(f.stores)+f.shared.lostUploads("t"))*f.share(requests), per)
	})
}

// While all gateways are local, and had the token's current account, they admit together at most
// requests + gateways − 1, with what they admitted before.
func TestAdmissionsOfAnOutageWithCurrentAccounts(t *testing.T) {
	checkInBubbles(t, func(t *rapid.T) {
		requests, per := rapid.SampledFrom([]int{1, 3, 10, 64, 100}).Draw(t, "requests"), 5*time.Second
		f, stop := startFleet(t, ratelimittest.Policy(t, limit("only", requests, per)), rapid.IntRange(1, 4).Draw(t, "gateways"))
		defer stop()
		for i := range rapid.IntRange(0, 150).Draw(t, "requests before") {
			f.decide(t, i%len(f.stores), "t")
			time.Sleep(time.Duration(rapid.IntRange(0, 200).Draw(t, "ms")) * time.Millisecond)
		}
		f.shared.become(refusing)
		for _, s := range f.stores { // each asks once more, so that its account is current
			f.shared.become(working)
			_, err := s.Decide(t.Context(), "t", f.policy)
			testkit.Must(t, err)
			f.shared.become(refusing)
		}
		for range rapid.IntRange(1, 300).Draw(t, "requests during the outage") {
			f.decide(t, rapid.IntRange(0, len(f.stores)-1).Draw(t, "gateway"), "t")
			time.Sleep(time.Duration(rapid.IntRange(0, 200).Draw(t, "ms")) * time.Millisecond)
		}
		f.atMost(t, requests+len(f.stores)-1, per)
	})
}

// Without calls that end without an answer, the shared store counts in the end exactly what was
// admitted, also of a token that makes no further request.
func TestEveryAdmissionCountsOnceAfterAnyOutage(t *testing.T) {
	hour := limit("hour", 1_000_000, time.Hour)
	checkInBubbles(t, func(t *rapid.T) {
		f, stop := startFleet(t, ratelimittest.Policy(t, hour, limit("second", 50, time.Second)), rapid.IntRange(1, 3).Draw(t, "gateways"))
		defer stop()
		anyway := rapid.SampledFrom([]condition{refusing, failing})
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				token := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "token")
				for i := range rapid.IntRange(1, 30).Draw(t, "requests") {
					f.decide(t, i%len(f.stores), token)
					time.Sleep(10 * time.Millisecond)
				}
			},
			"wait":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond) },
			"fail":   func(t *rapid.T) { f.shared.become(anyway.Draw(t, "condition")) },
			"return": func(*rapid.T) { f.shared.become(working) },
			"sweep":  func(*rapid.T) { f.stores[0].Sweep() },
		})
		f.shared.become(working)
		time.Sleep(5 * time.Second)
		for token, times := range f.admitted {
			if n := f.shared.used(token, ratelimittest.Policy(t, hour)); n != len(times) {
				t.Fatalf("%d counted of %s, %d admitted", n, token, len(times))
			}
		}
	})
}

// A call without an answer counts once more if it was executed. An upload without an answer is not
// repeated: it counts once, or not.
func TestCallsWithoutAnAnswerCountAtMostTwice(t *testing.T) {
	hour := limit("hour", 1_000_000, time.Hour)
	checkInBubbles(t, func(t *rapid.T) {
		f, stop := startFleet(t, ratelimittest.Policy(t, hour), 2)
		defer stop()
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				for i := range rapid.IntRange(1, 30).Draw(t, "requests") {
					f.decide(t, i%2, "t")
				}
			},
			"wait":   func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond) },
			"hang":   func(*rapid.T) { f.shared.become(hanging) },
			"return": func(*rapid.T) { f.shared.become(working) },
		})
		f.shared.become(working)
		time.Sleep(5 * time.Second)
		n, late := f.shared.used("t", f.policy), f.shared.lateSince("t", time.Time{})
		if admitted := len(f.admitted["t"]); n < admitted || n > admitted+late {
			t.Fatalf("%d counted, %d admitted, %d of them late", n, admitted, late)
		}
	})
}

// A token at one of n gateways has limit/n, rounded up, in every window of an outage.
func TestTokenAtOneGatewayHasItsShare(t *testing.T) {
	checkInBubbles(t, func(t *rapid.T) {
		gateways, requests := rapid.IntRange(1, 5).Draw(t, "gateways"), rapid.IntRange(1, 130).Draw(t, "requests")
		f, stop := startFleet(t, ratelimittest.Policy(t, limit("second", requests, time.Second)), gateways)
		defer stop()
		f.shared.become(refusing)
		for second := range 3 {
			before := len(f.admitted["t"])
			for range requests + 1 {
				f.decide(t, 0, "t")
			}
			if n := len(f.admitted["t"]) - before; n != f.share(requests) {
				t.Errorf("%d of %d for %d gateways in second %d", n, requests, gateways, second)
			}
			time.Sleep(time.Second + 17*time.Millisecond) // buckets of larger limits are 17 ms
		}
	})
}

// The limits of two gateways differ. After an outage, the window of each has the admissions of
// both.
func TestAdmissionsOfAnOutageCountWhileLimitsDiffer(t *testing.T) {
	minute, hour := ratelimittest.Policy(t, limit("minute", 300, time.Minute)), ratelimittest.Policy(t, limit("hour", 100_000, time.Hour))
	checkInBubbles(t, func(t *rapid.T) {
		f, stop := startFleet(t, nil, 2)
		defer stop()
		policies := []*ratelimit.Policy{minute, hour}
		request := func(requests int) {
			for i := range requests {
				f.policy = policies[i%2]
				f.decide(t, i%2, "t")
				time.Sleep(250 * time.Millisecond) // outages are longer than the minute
			}
		}
		request(4) // both have accounts with the windows of both
		for range rapid.IntRange(1, 3).Draw(t, "outages") {
			f.shared.become(rapid.SampledFrom([]condition{refusing, failing}).Draw(t, "condition"))
			request(rapid.IntRange(1, 400).Draw(t, "requests during the outage"))
			f.shared.become(working)
			time.Sleep(3 * time.Second) // own admissions are uploaded
			request(rapid.IntRange(0, 100).Draw(t, "requests after it"))
		}
		recent := slices.DeleteFunc(slices.Clone(f.admitted["t"]), func(at time.Time) bool { return time.Since(at) >= time.Minute })
		if n := f.shared.used("t", hour); n != len(f.admitted["t"]) {
			t.Fatalf("%d counted in the hour, %d admitted", n, len(f.admitted["t"]))
		}
		if n := f.shared.used("t", minute); n < min(300, len(recent)) {
			t.Fatalf("%d counted in the minute, %d admitted", n, len(recent))
		}
	})
}
