package failover_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

func TestRequestsAreNotProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("minute", 100, time.Minute))
		e.decide("t")
		e.shared.become(refusing)
		for range 3 {
			if d := e.decide("t"); !d.Allowed || !d.Local {
				t.Fatalf("got %+v", d)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if st := e.store.State(); st.Mode != ratelimit.ModeLocal || !errors.Is(st.Cause, syscall.ECONNREFUSED) {
			t.Fatalf("got %+v", st)
		}
		before := e.shared.decides.Load()
		for range 100 {
			e.decide("t")
			time.Sleep(100 * time.Millisecond)
		}
		if n := e.shared.decides.Load() - before; n > 0 {
			t.Errorf("%d requests were probes", n)
		}
		if n := e.shared.pings.Load(); n < 16 || n > 25 {
			t.Errorf("%d probes in 10 s", n)
		}
		e.endOutage()
		if d := e.decide("t"); d.Local || e.store.State().Cause != nil {
			t.Errorf("got %+v, %+v", d, e.store.State())
		}
	})
}

// The shared store does not answer, and the clients hang up meanwhile.
func TestFailuresCountAlthoughClientsHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("second", 1000, time.Second))
		e.shared.become(unreachable)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := e.store.Decide(ctx, "t", e.policy); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if e.store.State().Mode == ratelimit.ModeShared {
			t.Errorf("got %+v", e.store.State())
		}
	})
}

// A request whose deadline would come before the timeout of a call is decided at once. That is no
// failure of the shared store, which later gets the admission.
func TestRequestsNearTheirDeadlineMakeNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		store := newStore(t, failover.Options{Shared: s, CallTimeout: callTimeout})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		s.become(hanging)
		begin := time.Now()
		for range 20 {
			ctx, cancel := context.WithDeadline(t.Context(), begin.Add(callTimeout-1))
			if d, err := store.Decide(ctx, "t", p); err != nil || !d.Allowed || !d.Local {
				t.Errorf("got %+v, %v", d, err)
			}
			cancel()
		}
		if took := time.Since(begin); took > 0 || store.State().Mode != ratelimit.ModeShared {
			t.Errorf("20 requests took %v; got %+v", took, store.State())
		}
		s.become(working)
		ctx, cancel := context.WithDeadline(t.Context(), begin.Add(callTimeout))
		defer cancel()
		if d, err := store.Decide(ctx, "t", p); err != nil || d.Local || d.Budgets[0].Remaining != 1000-21 {
			t.Errorf("21 admitted, got %+v, %v", d, err)
		}
	})
}

// One successful probe is enough; three failed ones begin an outage.
func TestProbeFirstFindsTheStateBeforeAnyRequest(t *testing.T) {
	for condition, want := range map[condition]struct {
		name   string
		shared bool
		pings  int64
	}{
		working: {"working", true, 1}, refusing: {"refusing", false, 3}, hanging: {"hanging", false, 3},
	} {
		t.Run(want.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared()
				s.become(condition)
				store := newStore(t, failover.Options{Shared: s})
				store.ProbeFirst(t.Context())
				if st := store.State(); (st.Mode == ratelimit.ModeShared) != want.shared || s.pings.Load() != want.pings {
					t.Errorf("after %d pings: %+v", s.pings.Load(), st)
				}
			})
		})
	}
}

// A hanging store delays three requests by the timeout, and those that begin before the third
// timeout.
func TestHangingStoreDelaysFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("second", 1000, time.Second))
		e.shared.become(hanging)
		var slow sync.WaitGroup
		for range 100 { // 500 a second
			slow.Go(func() {
				began := time.Now()
				e.decide("t")
				if took := time.Since(began); took > callTimeout {
					t.Errorf("a request took %v", took)
				}
			})
			time.Sleep(2 * time.Millisecond)
		}
		slow.Wait()
		if n := e.shared.decides.Load(); n > 30 {
			t.Errorf("%d requests were delayed", n)
		}
	})
}

// Failures in a row begin an outage even a minute apart.
func TestOutageBeginsWithFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		store, p := newStore(t, failover.Options{Shared: s}), ratelimittest.Policy(t, limit("hour", 100, time.Hour))
		request := func(c condition) {
			s.become(c)
			decide(t, store, "t", p)
			time.Sleep(time.Minute)
		}
		for _, c := range []condition{working, unreachable, unreachable, working, unreachable, unreachable} { // a success ends a row
			request(c)
		}
		if store.State().Mode != ratelimit.ModeShared {
			t.Error("outage after two failures")
		}
		request(unreachable)
		if store.State().Mode == ratelimit.ModeShared {
			t.Error("no outage after three failures in three minutes")
		}
	})
}

// Half of the calls fail, but no three in a row.
func TestOutageBeginsWhenHalfOfTheCallsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("second", 1000, time.Second))
		for i := range 10 {
			if e.store.State().Mode != ratelimit.ModeShared {
				t.Fatalf("outage after %d calls", i)
			}
			e.shared.become([]condition{refusing, working}[i%2])
			e.decide(fmt.Sprint(i))
			time.Sleep(10 * time.Millisecond)
		}
		e.shared.become(refusing)
		e.decide("t")
		if e.store.State().Mode == ratelimit.ModeShared {
			t.Error("no outage after six of eleven calls failed")
		}

		e.endOutage()
		e.decide("t")
		e.shared.become(refusing)
		e.decide("t")
		if e.store.State().Mode != ratelimit.ModeShared {
			t.Error("failures of an outage that has ended count for another")
		}
	})
}

// A gateway that is stopped for a second has calls in flight that time out. It is local until its
// next probe; another gateway has admitted what the limit allows, and this one admits its share of
// it at most.
func TestStoppedGatewayIsLocalUntilItsNextProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ratelimittest.Policy(t, limit("minute", 10, time.Minute))
		f, stop := startFleet(t, p, 2)
		defer stop()
		f.decide(t, 0, "t")
		f.links[0].cut.Store(true)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _, _ = f.stores[0].Decide(t.Context(), "t", p) })
			all.Go(func() { _, _ = f.stores[1].Decide(t.Context(), "t", p) })
		}
		all.Wait()
		f.links[0].cut.Store(false)
		if st := f.stores[0].State(); st.Mode != ratelimit.ModeLocal {
			t.Errorf("got %+v", st)
		}
		time.Sleep(700 * time.Millisecond)
		if st := f.stores[0].State(); st.Mode != ratelimit.ModeShared {
			t.Errorf("after the next probe: %+v", st)
		}
		if d := f.decide(t, 0, "t"); d.Allowed || f.shared.used("t", p) != 10 {
			t.Errorf("after ten of ten: %+v", d)
		}
	})
}

func TestCanceledRequestsAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("second", 1000, time.Second))
		e.shared.become(unreachable)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 20 {
			if _, err := e.store.Decide(ctx, fmt.Sprint(i), e.policy); err != nil {
				t.Error(err)
			}
		}
		if n := e.shared.decides.Load(); n > 0 || e.store.State().Mode != ratelimit.ModeShared {
			t.Errorf("%d calls, %+v", n, e.store.State())
		}
	})
}

// A flapping store counts several outages. Since is the beginning of the first one, until the store
// has worked for ten seconds.
func TestFlappingStoreHasTheBeginningOfItsFirstOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("minute", 1000, time.Minute))
		time.Sleep(time.Minute)
		first := time.Now()
		for range 5 {
			e.beginOutage(refusing)
			if st := e.store.State(); !st.Since.Equal(first) {
				t.Errorf("outage since %v, not %v", st.Since, first)
			}
			time.Sleep(time.Second)
			e.shared.become(working)
			time.Sleep(3 * time.Second)
			if st := e.store.State(); st.Mode != ratelimit.ModeShared || !st.Since.After(first) {
				t.Errorf("got %+v", st)
			}
		}
		time.Sleep(10 * time.Second)
		e.beginOutage(refusing)
		if st := e.store.State(); !st.Since.Equal(time.Now()) {
			t.Errorf("after ten seconds, outage since %v", st.Since)
		}
		if n := e.metric("opsgate_rate_limit_store_outages_total"); n != 6 {
			t.Errorf("%v outages", n)
		}
	})
}
