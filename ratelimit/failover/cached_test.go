package failover_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// A cached denial has the times of now. It applies to policies that deny the request too, until its
// retry-after is over.
func TestDenialIsRepeatedFromTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("second", 1, time.Second), limit("minute", 100, time.Minute))
		e.decide("t")
		time.Sleep(100 * time.Millisecond)
		first := e.decide("t")
		time.Sleep(300 * time.Millisecond)
		before := e.shared.decides.Load()
		d := e.decide("t")
		if first.Cached || !d.Cached || d.Allowed || d.DeniedBy != 0 || d.RetryAfter != 600*time.Millisecond ||
			d.Budgets[0] != (ratelimit.Budget{Reset: 600 * time.Millisecond}) || d.Budgets[1].Remaining != 99 || !d.At.Equal(time.Now()) {
			t.Errorf("first %+v, then %+v", first, d)
		}
		if peeked, err := e.store.Peek(t.Context(), "t", e.policy); err != nil || peeked != d {
			t.Errorf("peeked %+v, %v; decided %+v", peeked, err, d)
		}
		if n := e.shared.decides.Load() - before; n != 0 {
			t.Errorf("%d calls", n)
		}
		if d := decide(t, e.store, "t", ratelimittest.Policy(t, limit("second", 1, time.Second), limit("minute", 90, time.Minute))); !d.Cached {
			t.Errorf("under a policy that denies it too: %+v", d)
		}
		if d := decide(t, e.store, "t", ratelimittest.Policy(t, limit("second", 2, time.Second))); !d.Allowed {
			t.Errorf("under another policy: %+v", d)
		}
		if d := e.decide("t"); d.Cached || d.Allowed {
			t.Errorf("after under another policy: %+v", d)
		}
		time.Sleep(time.Second)
		if d := e.decide("t"); !d.Allowed {
			t.Errorf("after retry-after: %+v", d)
		}
	})
}

// Without the refund or reset, the cached denial would last for an hour.
func TestCachedDenialIsDropped(t *testing.T) {
	refund := func(t *testing.T, by *failover.Store, p *ratelimit.Policy, d ratelimit.Decision) {
		t.Helper()
		if err := by.Refund(t.Context(), "t", d); err != nil {
			t.Error(err)
		}
	}
	for name, drop := range map[string]func(t *testing.T, e *env, other *failover.Store, d ratelimit.Decision){
		"after a refund": func(t *testing.T, e *env, _ *failover.Store, d ratelimit.Decision) {
			t.Helper()
			refund(t, e.store, e.policy, d)
		},
		"after a refund by another gateway": func(t *testing.T, e *env, other *failover.Store, d ratelimit.Decision) {
			t.Helper()
			refund(t, other, e.policy, d)
			e.store.DropDenial("other")
			if d := e.decide("t"); !d.Cached {
				t.Errorf("after the denial of another token was dropped: %+v", d)
			}
			e.store.DropDenial("t")
		},
		"after a refund that was not reported": func(t *testing.T, e *env, other *failover.Store, d ratelimit.Decision) {
			t.Helper()
			refund(t, other, e.policy, d)
			e.store.DropDenial("")
		},
		"after a reset": func(t *testing.T, e *env, _ *failover.Store, _ ratelimit.Decision) {
			t.Helper()
			if err := e.store.Reset(t.Context(), "t"); err != nil {
				t.Error(err)
			}
		},
		"after a refund during the call that denied": func(t *testing.T, e *env, other *failover.Store, d ratelimit.Decision) {
			t.Helper()
			e.store.DropDenial("t")
			e.shared.duringNextCall(func() {
				refund(t, other, e.policy, d)
				e.store.DropDenial("t")
			})
			if d := e.decide("t"); d.Allowed || d.Cached {
				t.Errorf("decided before the refund: %+v", d)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, failover.Settings{}, limit("hour", 1, time.Hour))
				other := start(t, e.shared, failover.Settings{})
				first := e.decide("t")
				if d := e.decide("t"); d.Allowed {
					t.Fatalf("second request: %+v", d)
				}
				if d := e.decide("t"); !d.Cached {
					t.Fatalf("not cached: %+v", d)
				}
				drop(t, e, other, first)
				if d := e.decide("t"); !d.Allowed {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

func TestDenialIsCachedForASecondWithoutSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		subscribed := false
		store := newStore(t, failover.Options{Shared: s, Subscribed: func() bool { return subscribed }})
		other := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1, time.Hour))
		first := decide(t, other, "t", p)
		decide(t, store, "t", p)
		time.Sleep(time.Second)
		if d := decide(t, store, "t", p); !d.Cached {
			t.Errorf("after a second: %+v", d)
		}
		time.Sleep(time.Microsecond)
		if d := decide(t, store, "t", p); d.Cached {
			t.Errorf("after more than a second: %+v", d)
		}
		subscribed = true
		time.Sleep(time.Minute)
		if d := decide(t, store, "t", p); !d.Cached {
			t.Errorf("subscribed: %+v", d)
		}
		subscribed = false
		if err := other.Refund(t.Context(), "t", first); err != nil {
			t.Error(err)
		}
		if d := decide(t, store, "t", p); !d.Allowed {
			t.Errorf("not subscribed any more: %+v", d)
		}
	})
}

// An answer that is overtaken by a newer one does not replace its account.
func TestOvertakenAnswerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{Gateways: 1}, limit("hour", 3, time.Hour))
		e.shared.duringNextCall(func() {
			time.Sleep(time.Millisecond)
			e.admitted("t", 2)
		})
		e.decide("t")
		e.shared.become(refusing)
		if d := e.decide("t"); d.Allowed || !d.Local {
			t.Errorf("after three of three: %+v", d)
		}
	})
}

// Requests, refunds, resets and dropped denials of the same tokens during outages, under changing
// settings: every request is answered.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		store := start(t, s, failover.Settings{Gateways: 2, ProbeEvery: 20 * time.Millisecond})
		p, other := ratelimittest.Policy(t, limit("second", 20, time.Second)), ratelimittest.Policy(t, limit("second", 100, time.Second))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for n := range 500 {
					token := fmt.Sprint(n % 3)
					d := decide(t, store, token, []*ratelimit.Policy{p, other}[n/100%2])
					if err := store.Refund(t.Context(), token, d); err != nil {
						t.Error(err)
					}
					switch n % 50 {
					case i:
						store.DropDenial("")
					case 10 + i:
						_ = store.Reset(t.Context(), token) // fails during an outage
					case 20 + i:
						store.Sweep()
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for i := range 20 {
			mode := []ratelimit.Mode{ratelimit.ModeLocal, ratelimit.ModeAllow}[i%2]
			store.Configure(failover.Settings{Mode: mode, Gateways: 1 + i%3, ProbeEvery: 20 * time.Millisecond})
			s.become([]condition{working, refusing, working, hanging, working, unreachable}[i%6])
			time.Sleep(50 * time.Millisecond)
		}
		s.become(working)
		all.Wait()
	})
}
