package failover_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func limit(name string, requests int, per time.Duration) ratelimit.Limit {
	return ratelimit.Limit{Name: name, Requests: requests, Per: per}
}

// start runs a store in the test's bubble.
func start(t *testing.T, s *shared, settings failover.Settings) *failover.Store {
	t.Helper()
	store, err := failover.New(failover.Options{Shared: s, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return store
}

func decide(t *testing.T, s *failover.Store, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.Decide(t.Context(), token, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// admitted counts how many of so many requests at once are admitted.
func admitted(t *testing.T, s *failover.Store, token string, p *ratelimit.Policy, requests int) (n int) {
	t.Helper()
	for range requests {
		if decide(t, s, token, p).Allowed {
			n++
		}
	}
	return n
}

// awaitShared lets time pass until all tokens are back with the shared store.
func awaitShared(t *testing.T, s *failover.Store) {
	t.Helper()
	for range 50 {
		time.Sleep(100 * time.Millisecond)
		if st := s.State(); st.Shared && time.Since(st.Since) > 1100*time.Millisecond {
			return
		}
	}
	t.Fatalf("after five seconds: %+v", s.State())
}

func TestAHealthySharedStoreDecides(t *testing.T) {
	ratelimittest.Run(t, func(t rapid.TB) ratelimittest.Subject {
		now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
		clock := func() time.Time { return now }
		s, err := failover.New(failover.Options{Shared: newShared(clock), Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return ratelimittest.Subject{Store: s, Now: clock, Advance: func(d time.Duration) { now = now.Add(d) }}
	})
}

func TestTheBreakerOpensAndNobodyAsksButTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		decide(t, store, "t", p)
		s.away.Store(true)
		for range 3 {
			if d := decide(t, store, "t", p); !d.Allowed || !d.Local {
				t.Fatalf("got %+v", d)
			}
		}
		if st := store.State(); st.Shared || st.Breaker != "open" || st.Cause != errLost.Error() || st.Mode != failover.Local {
			t.Fatalf("got %+v", st)
		}
		before := s.calls.Load() - s.pings.Load()
		for range 50 {
			decide(t, store, "t", p)
			time.Sleep(100 * time.Millisecond)
		}
		if asked := s.calls.Load() - s.pings.Load() - before; asked > 0 {
			t.Errorf("%d requests were probes", asked)
		}
		if n := s.pings.Load(); n < 7 || n > 14 {
			t.Errorf("%d probes in 5 s", n)
		}
		s.away.Store(false)
		awaitShared(t, store)
		if d := decide(t, store, "t", p); d.Local {
			t.Errorf("got %+v", d)
		}
	})
}

func TestTheModes(t *testing.T) {
	for mode, check := range map[failover.Mode]func(t *testing.T, d ratelimit.Decision, err error){
		failover.Allow: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			if err != nil || !d.Allowed || !d.Local || d.Budgets[0].Remaining != 1 {
				t.Errorf("got %+v, %v", d, err)
			}
		},
		failover.Deny: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			away, ok := errors.AsType[*ratelimit.UnavailableError](err)
			if !ok || away.RetryAfter < time.Second || d.Allowed {
				t.Errorf("got %+v, %v", d, err)
			}
		},
		failover.Local: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			if err != nil || d.Allowed || d.Denied != 0 || d.RetryAfter <= 0 {
				t.Errorf("got %+v, %v", d, err)
			}
		},
	} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared(time.Now)
				store := start(t, s, failover.Settings{Mode: mode})
				p := ratelimittest.Policy(t, limit("minute", 1, time.Minute))
				decide(t, store, "t", p)
				s.away.Store(true)
				for range 5 {
					d, err := store.Decide(t.Context(), "t", p)
					check(t, d, err)
					d, err = store.Peek(t.Context(), "t", p)
					check(t, d, err)
				}
				if err := store.Reset(t.Context(), "t"); err == nil {
					t.Error("reset while the store is away")
				}
			})
		})
	}
}

// What one gateway knew of a token is divided: of 100 a minute, 40 spent, each of two may admit 30 more.
func TestAnOutageBeginsWithWhatWasKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		one, two := start(t, s, failover.Settings{Replicas: 2}), start(t, s, failover.Settings{Replicas: 2})
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		for range 20 {
			decide(t, one, "t", p)
			decide(t, two, "t", p)
			time.Sleep(10 * time.Millisecond)
		}
		s.away.Store(true)
		if n := admitted(t, one, "t", p, 100) + admitted(t, two, "t", p, 100); n < 60 || n > 61 {
			t.Errorf("%d more admitted", n)
		}
	})
}

// Three a second, two gateways: each admits two in a second, and three in two.
func TestAnUnevenLimitIsNotPassedOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		s.away.Store(true)
		one, two := start(t, s, failover.Settings{Replicas: 2}), start(t, s, failover.Settings{Replicas: 2})
		p := ratelimittest.Policy(t, limit("second", 3, time.Second))
		n := 0
		for range 200 {
			n += admitted(t, one, "t", p, 1) + admitted(t, two, "t", p, 1)
			time.Sleep(50 * time.Millisecond)
		}
		if n < 29 || n > 31 {
			t.Errorf("%d admitted in 10 s", n)
		}
	})
}

// Whether or not the store has lost what it knew, it knows after an outage what was spent before and during it, once.
func TestWhatWasSpentIsKnownAfterAnOutage(t *testing.T) {
	for _, lost := range []bool{true, false} {
		t.Run(fmt.Sprintf("lost %t", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared(time.Now)
				one, two := start(t, s, failover.Settings{Replicas: 2}), start(t, s, failover.Settings{Replicas: 2})
				p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
				for range 200 {
					decide(t, one, "t", p)
					decide(t, two, "t", p)
				}
				decide(t, one, "t", p) // so that each knows of all but a few
				s.away.Store(true)
				n := admitted(t, one, "t", p, 100) + admitted(t, two, "t", p, 50)
				if n != 150 {
					t.Fatalf("%d of 150 admitted alone", n)
				}
				if lost {
					s.lose()
				}
				s.away.Store(false)
				awaitShared(t, one)
				awaitShared(t, two)
				decide(t, one, "t", p)
				d := decide(t, two, "t", p)
				if left := d.Budgets[0].Remaining; left < 1000-401-150-2 || left > 1000-401-150-2+1 {
					t.Errorf("%d are left", left)
				}
			})
		})
	}
}

func TestTokensComeBackBitByBit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		s.away.Store(true)
		for range 3 {
			decide(t, store, "t", p)
		}
		s.away.Store(false)
		for !store.State().Shared {
			time.Sleep(10 * time.Millisecond)
		}
		var back []int
		for range 5 {
			n := 0
			for i := range 1000 {
				if d, _ := store.Peek(t.Context(), fmt.Sprint(i), p); !d.Local {
					n++
				}
			}
			back = append(back, n)
			time.Sleep(250 * time.Millisecond)
		}
		for i, want := range []int{0, 250, 500, 750, 1000} {
			if back[i] < want-80 || back[i] > want+80 {
				t.Errorf("back: %v", back)
			}
		}
	})
}

func TestRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("minute", 10, time.Minute))
		there := decide(t, store, "t", p)
		s.away.Store(true)
		alone := decide(t, store, "t", p)
		if err := store.Refund(t.Context(), "t", p, alone); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			alone = decide(t, store, "t", p)
		}
		if alone.Budgets[0].Remaining != 6 {
			t.Errorf("one spent there, three here and one given back: %+v", alone)
		}
		if err := store.Refund(t.Context(), "t", p, there); err == nil {
			t.Error("given back to a store that is away")
		}
		s.away.Store(false)
		awaitShared(t, store)
		if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 5 {
			t.Errorf("got %+v", d)
		}
	})
}

// One call fails, and the breaker stays closed: what was admitted alone is told before the next.
func TestASingleFailureLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		for i := range 30 {
			s.away.Store(i%5 == 4)
			decide(t, store, "t", p)
		}
		s.away.Store(false)
		if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 100-31 {
			t.Errorf("got %+v", d)
		}
	})
}

// Over any schedule of outages, what two gateways admit together stays within the limit and a little, and when all is well again
// for as long as the limit looks back, the whole limit is there.
func TestOverManyOutages(t *testing.T) {
	p := ratelimittest.Policy(t, limit("minute", 120, time.Minute))
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		clock := func() time.Time { return now }
		s := newShared(clock)
		var gateways []*failover.Store
		for range 2 {
			g, err := failover.New(failover.Options{Shared: s, Clock: clock, Settings: failover.Settings{Replicas: 2}})
			if err != nil {
				rt.Fatal(err)
			}
			gateways = append(gateways, g)
		}
		well := func(gateways ...*failover.Store) { // often enough that no breaker opens: nothing looks for the store here
			for _, g := range gateways {
				for range 3 {
					_, _ = g.Decide(context.Background(), "other", p)
				}
			}
		}
		var times []time.Time
		request := func(rt *rapid.T) {
			for range rapid.IntRange(1, 40).Draw(rt, "requests") {
				d, err := gateways[rapid.IntRange(0, 1).Draw(rt, "gateway")].Decide(context.Background(), "t", p)
				if err != nil {
					rt.Fatal(err)
				}
				if d.Allowed {
					times = append(times, now)
				}
				now = now.Add(30 * time.Millisecond)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"requests": request,
			"more":     request,
			"wait": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds")) * time.Second)
			},
			"flicker": func(rt *rapid.T) { // two failures do not open the breaker
				s.away.Store(true)
				_, _ = gateways[0].Decide(context.Background(), "other", p)
				s.away.Store(false)
				well(gateways[0])
			},
			"restart": func(*rapid.T) { // of which each gateway sees one broken connection
				s.away.Store(true)
				for _, g := range gateways {
					_, _ = g.Decide(context.Background(), "other", p)
				}
				s.lose()
				s.away.Store(false)
				well(gateways...)
			},
			"": func(rt *rapid.T) {
				n := 0
				for _, at := range times {
					if at.Add(time.Minute).After(now) {
						n++
					}
				}
				if n > 138 { // where one gateway knows how much others spent, but not when
					rt.Fatalf("%d admitted in a minute", n)
				}
			},
		})
	})
}
