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

// A denial is repeated, with its times counted down, without a call of the shared store; not for another policy, and not when its time is
// over.
func TestADenialIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("second", 1, time.Second), limit("minute", 100, time.Minute))
		decide(t, store, "t", p)
		time.Sleep(100 * time.Millisecond)
		first := decide(t, store, "t", p)
		time.Sleep(300 * time.Millisecond)
		asked := s.decides.Load()
		d := decide(t, store, "t", p)
		if first.Cached || !d.Cached || d.Allowed || d.Denied != 0 || d.RetryAfter != 600*time.Millisecond ||
			d.Budgets[0] != (ratelimit.Budget{Reset: 600 * time.Millisecond}) || d.Budgets[1].Remaining != 99 || !d.At.Equal(time.Now()) {
			t.Errorf("first %+v, then %+v", first, d)
		}
		if peeked, err := store.Peek(t.Context(), "t", p); err != nil || peeked != d {
			t.Errorf("peeked %+v, %v; decided %+v", peeked, err, d)
		}
		if n := s.decides.Load() - asked; n != 0 {
			t.Errorf("%d calls", n)
		}
		if d := decide(t, store, "t", ratelimittest.Policy(t, limit("second", 2, time.Second))); !d.Allowed {
			t.Errorf("another policy: %+v", d)
		}
		if d := decide(t, store, "t", p); d.Cached || d.Allowed {
			t.Errorf("after another policy: %+v", d)
		}
		time.Sleep(time.Second)
		if d := decide(t, store, "t", p); !d.Allowed {
			t.Errorf("its time is over: %+v", d)
		}
	})
}

// What makes a token admissible earlier voids its denial. Else a denial of one in an hour would be repeated.
func TestADenialIsVoid(t *testing.T) {
	for name, void := range map[string]func(t *testing.T, s *sharedStore, here, there *failover.Store, p *ratelimit.Policy, d ratelimit.Decision){
		"after a refund": func(t *testing.T, _ *sharedStore, here, _ *failover.Store, p *ratelimit.Policy, d ratelimit.Decision) {
			t.Helper()
			if err := here.Refund(t.Context(), "t", p, d); err != nil {
				t.Error(err)
			}
		},
		"after a refund elsewhere": func(t *testing.T, _ *sharedStore, here, there *failover.Store, p *ratelimit.Policy, d ratelimit.Decision) {
			t.Helper()
			if err := there.Refund(t.Context(), "t", p, d); err != nil {
				t.Error(err)
			}
			here.DropDenial("other")
			if d := decide(t, here, "t", p); !d.Cached {
				t.Errorf("freed was another token, and not %+v", d)
			}
			here.DropDenial("t")
		},
		"after a refund that was not reported": func(t *testing.T, _ *sharedStore, here, there *failover.Store, p *ratelimit.Policy, d ratelimit.Decision) {
			t.Helper()
			if err := there.Refund(t.Context(), "t", p, d); err != nil {
				t.Error(err)
			}
			here.DropDenial("")
		},
		"after a reset": func(t *testing.T, _ *sharedStore, here, _ *failover.Store, _ *ratelimit.Policy, _ ratelimit.Decision) {
			t.Helper()
			if err := here.Reset(t.Context(), "t"); err != nil {
				t.Error(err)
			}
		},
		"after a refund during the call that denied": func(
			t *testing.T, s *sharedStore, here, there *failover.Store, p *ratelimit.Policy, d ratelimit.Decision,
		) {
			t.Helper()
			here.DropDenial("t")
			s.inCall = func() { // the denial is on its way to here
				if err := there.Refund(t.Context(), "t", p, d); err != nil {
					t.Error(err)
				}
				here.DropDenial("t")
			}
			if d := decide(t, here, "t", p); d.Allowed || d.Cached {
				t.Errorf("it was decided before the refund: %+v", d)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared(time.Now)
				here, there := start(t, s, failover.Settings{}), start(t, s, failover.Settings{})
				p := ratelimittest.Policy(t, limit("hour", 1, time.Hour))
				first := decide(t, here, "t", p)
				if d := decide(t, here, "t", p); d.Allowed {
					t.Fatalf("one in an hour: %+v", d)
				}
				if d := decide(t, here, "t", p); !d.Cached {
					t.Fatalf("not cached: %+v", d)
				}
				void(t, s, here, there, p, first)
				if d := decide(t, here, "t", p); !d.Allowed {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

// Where a gateway does not receive what others refund, it repeats a denial for a second at most.
func TestADenialThatMayBeVoidIsRepeatedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		subscribed := false
		here := newStore(t, failover.Options{Shared: s, Subscribed: func() bool { return subscribed }})
		there := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1, time.Hour))
		first := decide(t, there, "t", p)
		decide(t, here, "t", p)
		time.Sleep(time.Second)
		if d := decide(t, here, "t", p); !d.Cached {
			t.Errorf("within the second: %+v", d)
		}
		time.Sleep(time.Microsecond)
		if d := decide(t, here, "t", p); d.Cached {
			t.Errorf("after it: %+v", d)
		}
		subscribed = true
		time.Sleep(time.Minute)
		if d := decide(t, here, "t", p); !d.Cached {
			t.Errorf("followed: %+v", d)
		}
		subscribed = false
		if err := there.Refund(t.Context(), "t", p, first); err != nil {
			t.Error(err)
		}
		if d := decide(t, here, "t", p); !d.Allowed {
			t.Errorf("not followed any more: %+v", d)
		}
	})
}

// Answers overtake each other: an older account does not replace a newer one.
func TestAnOlderAnswerIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{Replicas: 1})
		p := ratelimittest.Policy(t, limit("hour", 3, time.Hour))
		s.inCall = func() {
			time.Sleep(time.Millisecond)
			admitted(t, store, "t", p, 2)
		}
		decide(t, store, "t", p)
		s.become(gone)
		if d := decide(t, store, "t", p); d.Allowed || !d.Local {
			t.Errorf("three of three were admitted: %+v", d)
		}
	})
}

// Requests, refunds, resets and reports of the same tokens at the same time, beside outages: every request is answered.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{Replicas: 2, ProbeEvery: 20 * time.Millisecond})
		p, other := ratelimittest.Policy(t, limit("second", 20, time.Second)), ratelimittest.Policy(t, limit("second", 100, time.Second))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for n := range 500 {
					token := fmt.Sprint(n % 3)
					d := decide(t, store, token, []*ratelimit.Policy{p, other}[n/100%2])
					if err := store.Refund(t.Context(), token, p, d); err != nil {
						t.Error(err)
					}
					switch n % 50 {
					case i:
						store.DropDenial("")
					case 10 + i:
						_ = store.Reset(t.Context(), token) // fails while the shared store is away
					case 20 + i:
						store.Sweep()
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for i := range 20 {
			s.become([]int{well, gone, well, frozen, well, cut}[i%6])
			time.Sleep(50 * time.Millisecond)
		}
		s.become(well)
		all.Wait()
	})
}
