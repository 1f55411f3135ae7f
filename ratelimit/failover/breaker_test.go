package failover_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

func TestRequestsAreNoProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		decide(t, store, "t", p)
		s.become(gone)
		for range 3 {
			if d := decide(t, store, "t", p); !d.Allowed || !d.Local {
				t.Fatalf("got %+v", d)
			}
			time.Sleep(uploadEvery)
		}
		if st := store.State(); st.Mode != ratelimit.ModeLocal || st.Breaker != "open" || !strings.Contains(st.Cause, "refused") {
			t.Fatalf("got %+v", st)
		}
		before := s.decides.Load()
		for range 100 {
			decide(t, store, "t", p)
			time.Sleep(100 * time.Millisecond)
		}
		if asked := s.decides.Load() - before; asked > 0 {
			t.Errorf("%d requests were probes", asked)
		}
		if n := s.pings.Load(); n < 16 || n > 25 {
			t.Errorf("%d probes in 10 s", n)
		}
		s.become(well)
		awaitShared(t, store)
		if d := decide(t, store, "t", p); d.Local || store.State().Cause != "" || store.State().Breaker != "closed" {
			t.Errorf("got %+v, %+v", d, store.State())
		}
	})
}

// Before any request, one probe shows that the shared store works, and three begin an outage.
func TestProbesBeforeAnyRequest(t *testing.T) {
	for how, want := range map[int]struct {
		name   string
		shared bool
		pings  int64
	}{
		well: {"well", true, 1}, gone: {"gone", false, 3}, frozen: {"frozen", false, 3},
	} {
		t.Run(want.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared(time.Now)
				s.become(how)
				store := newStore(t, failover.Options{Shared: s})
				store.ProbeFirst(t.Context())
				if st := store.State(); (st.Mode == ratelimit.ModeShared) != want.shared || s.pings.Load() != want.pings {
					t.Errorf("after %d looks: %+v", s.pings.Load(), st)
				}
			})
		})
	}
}

// A frozen store costs three requests their time-out, or those that came before they had it.
func TestAFrozenStoreIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("second", 1000, time.Second))
		s.become(frozen)
		var slow sync.WaitGroup
		for range 100 { // 500 a second
			slow.Go(func() {
				began := time.Now()
				decide(t, store, "t", p)
				if took := time.Since(began); took > callTimeout {
					t.Errorf("a request took %v", took)
				}
			})
			time.Sleep(2 * time.Millisecond)
		}
		slow.Wait()
		if n := s.decides.Load(); n > 30 {
			t.Errorf("%d requests waited for it", n)
		}
	})
}

// Nobody asks often at night, and the store's absence is known nevertheless.
func TestAStoreThatIsSeldomAskedIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := newShared(time.Now)
		store := start(t, remote, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 100, time.Hour))
		asked := 0
		ask := func(how int) {
			remote.become(how)
			asked++
			decide(t, store, fmt.Sprint("token ", asked), p) // each another one: a token whose call failed is decided here for a while
			time.Sleep(time.Minute)
		}
		for _, how := range []int{well, cut, cut, well, cut, cut} { // the failures before a success are over
			ask(how)
		}
		if store.State().Mode != ratelimit.ModeShared {
			t.Error("left after two failures")
		}
		ask(cut)
		if store.State().Mode == ratelimit.ModeShared {
			t.Error("three failures in three minutes, and it is still asked")
		}
	})
}

// Half of the calls fail, and never three in a row.
func TestAStoreThatAnswersHalfOfTheTimeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("second", 1000, time.Second))
		for i := range 10 {
			if store.State().Mode != ratelimit.ModeShared {
				t.Fatalf("left after %d", i)
			}
			s.become([]int{gone, well}[i%2])
			decide(t, store, fmt.Sprint(i), p)
			time.Sleep(10 * time.Millisecond)
		}
		s.become(gone)
		decide(t, store, "t", p)
		if store.State().Mode == ratelimit.ModeShared {
			t.Error("six of eleven failed, and it is still asked")
		}
	})
}

func TestCallersThatGiveUpAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("second", 1000, time.Second))
		s.become(cut)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := store.Decide(ctx, "t", p); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if store.State().Mode != ratelimit.ModeShared {
			t.Errorf("got %+v", store.State())
		}
	})
}

// A store that comes and goes is one outage for whoever asks since when, until it has worked for ten seconds; each time that it is left
// counts.
func TestAStoreThatFlapsIsAwaySinceTheFirstTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		registry := prometheus.NewRegistry()
		store := newStore(t, failover.Options{Shared: s, Registerer: registry})
		t.Cleanup(run(t, store))
		p := ratelimittest.Policy(t, limit("minute", 1000, time.Minute))
		time.Sleep(time.Minute)
		first := time.Now()
		for range 5 {
			s.become(gone)
			leave(t, store, p)
			if st := store.State(); !st.Since.Equal(first) {
				t.Errorf("away since %v, not %v", st.Since, first)
			}
			time.Sleep(time.Second)
			s.become(well)
			time.Sleep(3 * time.Second)
			if st := store.State(); st.Mode != ratelimit.ModeShared || !st.Since.After(first) {
				t.Errorf("got %+v", st)
			}
		}
		time.Sleep(10 * time.Second)
		s.become(gone)
		leave(t, store, p)
		if st := store.State(); !st.Since.Equal(time.Now()) {
			t.Errorf("after ten seconds, away since %v", st.Since)
		}
		if n := value(t, registry, "opsgate_rate_limit_store_outages_total"); n != 6 {
			t.Errorf("%v outages", n)
		}
	})
}
