package failover_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// A stalledLink is the connection to a shared store of a gateway that stops for a second when it has several calls in flight, which time
// out. On its clock, time passes that does not pass in the bubble.
type stalledLink struct {
	*sharedStore

	remaining atomic.Int32   // calls until it stops
	calls     sync.WaitGroup // the same calls
	errors    []error        // of the calls, in turn
	stopped   atomic.Int64
}

func (l *stalledLink) clock() time.Time { return time.Now().Add(time.Duration(l.stopped.Load())) }

func (l *stalledLink) Exchange(
	ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	i := l.remaining.Add(-1)
	if i < 0 {
		return l.sharedStore.Exchange(ctx, tokenID, p, x)
	}
	l.calls.Done()
	l.calls.Wait()
	l.stopped.CompareAndSwap(0, int64(time.Second))
	return ratelimit.Decision{}, nil, l.errors[int(i)%len(l.errors)]
}

// A gateway stops for a second with twenty calls in flight, or in batches. No outage begins, and the calls are made again: meanwhile,
// another gateway has admitted what the limit allows.
func TestStoppedGatewayBeginsNoOutage(t *testing.T) {
	late := context.DeadlineExceeded
	for name, errs := range map[string][]error{
		"calls":   {late},
		"batches": {late, errors.Join(ratelimit.ErrOtherCalls, late), errors.Join(ratelimit.ErrOtherCalls, late)},
		"queue":   {late, errors.Join(ratelimit.ErrOtherCalls, ratelimit.ErrNotSent, late)},
	} {
		t.Run(name, func(t *testing.T) { stopGateway(t, errs) })
	}
}

func stopGateway(t *testing.T, errs []error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		l := &stalledLink{sharedStore: s, errors: errs}
		s.clock = l.clock
		store := newStore(t, failover.Options{Shared: l, Settings: failover.Settings{Gateways: 2}, Clock: l.clock})
		store.SetStallTick(10 * time.Millisecond)
		t.Cleanup(run(t, store))
		other := newStore(t, failover.Options{Shared: s, Clock: l.clock})
		p := ratelimittest.Policy(t, limit("minute", 10, time.Minute))
		decide(t, store, "t", p)
		admitted(t, other, "t", p, 10)
		synctest.Wait()
		var all sync.WaitGroup
		l.remaining.Store(20)
		l.calls.Add(20)
		for range 20 {
			all.Go(func() {
				if d := decide(t, store, "t", p); d.Allowed || d.Local {
					t.Errorf("after ten of ten: %+v", d)
				}
			})
		}
		all.Wait()
		if st := store.State(); st.Mode != ratelimit.ModeShared {
			t.Errorf("got %+v", st)
		}
	})
}

// A stall counts once, also at the time at which the watch records it.
func TestStallCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var stopped atomic.Int64
		var w *failover.StallWatch
		var most int64
		w = failover.NewStallWatch(func() time.Duration { // called by the watch
			now := time.Since(start) + time.Duration(stopped.Load())
			most = max(most, w.TotalAt(now))
			return now
		}, 10*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { w.Run(ctx) })
		time.Sleep(55 * time.Millisecond)
		stopped.Store(int64(time.Second))
		time.Sleep(50 * time.Millisecond)
		cancel()
		ended.Wait()
		if most != int64(time.Second) {
			t.Errorf("a stall of a second counts %v", time.Duration(most))
		}
	})
}

// A gateway that stalls in every call notices nevertheless that the shared store does not answer.
func TestStalledGatewayNoticesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		s.become(unreachable)
		var stopped atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(stopped.Load())) }
		store := newStore(t, failover.Options{Shared: s, Clock: clock})
		store.SetStallTick(10 * time.Millisecond)
		t.Cleanup(run(t, store))
		p := ratelimittest.Policy(t, limit("minute", 10, time.Minute))
		for range 2 { // each makes two calls
			if st := store.State(); st.Mode != ratelimit.ModeShared {
				t.Fatalf("got %+v", st)
			}
			s.before = func() { stopped.Add(int64(time.Second)) }
			decide(t, store, "t", p)
		}
		if st := store.State(); st.Mode == ratelimit.ModeShared {
			t.Errorf("got %+v", st)
		}
	})
}
