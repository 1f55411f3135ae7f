package failover_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// However the shared store fails, and whether or not it loses its accounts, afterwards it counts once what was admitted before and during
// the outage.
func TestAfterAnOutageAdmissionsCountOnce(t *testing.T) {
	for how, name := range map[int]string{gone: "gone", frozen: "frozen", cut: "cut"} {
		for _, lost := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, lost %t", name, lost), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newShared(time.Now)
					one, two := start(t, s, failover.Settings{Replicas: 2}), start(t, s, failover.Settings{Replicas: 2})
					p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
					for range 200 {
						decide(t, one, "t", p)
						decide(t, two, "t", p)
						time.Sleep(time.Second)
					}
					decide(t, one, "t", p) // so that the accounts of both have all
					s.become(how)
					leave(t, one, p)
					leave(t, two, p)
					if n := admitted(t, one, "t", p, 100) + admitted(t, two, "t", p, 50); n != 150 {
						t.Fatalf("%d of 150 admitted", n)
					}
					time.Sleep(10 * time.Second)
					if lost {
						s.lose()
					}
					s.become(well)
					awaitShared(t, one)
					awaitShared(t, two)
					decide(t, one, "t", p)
					decide(t, two, "t", p)
					if n := s.used("t", p); n != 401+150+2 {
						t.Errorf("%d are counted, and %d were admitted", n, 401+150+2)
					}
				})
			})
		}
	}
}

// A token without requests during the outage is uploaded, too.
func TestATokenWithoutRequestsInAnOutageKeepsItsUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		admitted(t, store, "t", p, 300)
		s.become(gone)
		leave(t, store, p)
		s.lose()
		s.become(well)
		awaitShared(t, store)
		time.Sleep(10 * time.Minute)
		if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 699 {
			t.Errorf("got %+v", d)
		}
	})
}

// A quick restart shows as one connection that is refused or breaks, also within an answer.
func TestAQuickRestartLosesNothing(t *testing.T) {
	for _, broken := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		t.Run(broken.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared(time.Now)
				s.broken = broken
				store := start(t, s, failover.Settings{})
				p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
				admitted(t, store, "t", p, 300)
				s.become(gone)
				decide(t, store, "other", p)
				s.lose()
				s.become(well)
				if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 699 {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

// An upload is executed and not answered. It is made again, and counts once whether it was kept or lost since.
func TestAnUploadWithoutAnswerCountsOnce(t *testing.T) {
	for _, lost := range []bool{true, false} {
		t.Run(fmt.Sprintf("lost %t", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared(time.Now)
				store := start(t, s, failover.Settings{})
				p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
				admitted(t, store, "t", p, 300)
				time.Sleep(time.Second)
				s.become(gone)
				leave(t, store, p)
				admitted(t, store, "t", p, 100)
				s.become(well)
				awaitShared(t, store)
				s.lazy = 1
				if d := decide(t, store, "t", p); !d.Local { // one more during the outage
					t.Fatalf("got %+v", d)
				}
				if lost {
					s.lose()
				}
				time.Sleep(uploadEvery)
				if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 1000-402 {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

// Calls that are slow are executed: what the gateway decides for them is not uploaded, or it would count twice.
func TestASlowCallCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		for i := range 20 {
			s.become([]int{well, well, frozen}[i%3])
			decide(t, store, "t", p)
			s.become(well)
		}
		if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 1000-21 {
			t.Errorf("got %+v", d)
		}
	})
}

// What was certainly not executed, an upload among it, is uploaded with the next request.
func TestAnUploadThatIsRefusedIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 50, time.Hour))
		admitted(t, store, "t", p, 10)
		s.become(full)
		if n := admitted(t, store, "t", p, 2); n != 2 || s.used("t", p) != 10 {
			t.Fatalf("%d admitted, %d counted", n, s.used("t", p))
		}
		s.become(well)
		if d := decide(t, store, "t", p); d.Local || s.used("t", p) != 13 {
			t.Errorf("%d counted, and 13 were admitted: %+v", s.used("t", p), d)
		}
	})
}

// What a request uploads matters to others: a client that hung up does not stop it.
func TestAnUploadDoesNotEndWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		s.become(full)
		decide(t, store, "t", p)
		s.become(well)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if d, err := store.Decide(ctx, "t", p); err != nil || d.Local || s.used("t", p) != 2 {
			t.Errorf("%d counted: %+v, %v", s.used("t", p), d, err)
		}
	})
}

// A call is executed after a restart that the gateway sees by another call. Its answer lacks what was lost, which is uploaded all the same.
func TestAnAnswerAfterARestartDoesNotReplaceTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		admitted(t, store, "t", p, 300)
		s.before = func() {
			s.become(gone)
			decide(t, store, "other", p)
			s.lose()
			s.become(well)
		}
		decide(t, store, "t", p)
		if d := decide(t, store, "t", p); d.Local || s.used("t", p) != 302 {
			t.Errorf("%d counted: %+v", s.used("t", p), d)
		}
	})
}

// A request beside an upload is decided by a store that may not have what is uploaded. Its answer does not replace that.
func TestAnAnswerBesideAnUploadDoesNotReplaceTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		admitted(t, store, "t", p, 300)
		s.become(gone)
		decide(t, store, "other", p)
		s.lose()
		s.become(well)
		s.before = func() {
			if d := decide(t, store, "t", p); d.Local || s.used("t", p) != 1 {
				t.Errorf("%d counted: %+v", s.used("t", p), d)
			}
			s.become(cut)
		}
		decide(t, store, "t", p)
		s.become(well)
		if d := decide(t, store, "t", p); d.Local || s.used("t", p) != 303 {
			t.Errorf("%d counted: %+v", s.used("t", p), d)
		}
	})
}

// A call times out beside an upload that is refused. Both requests were admitted, and count after a restart.
func TestACallWithoutAnswerBesideARefusedUploadCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		admitted(t, store, "t", p, 300)
		s.become(full)
		decide(t, store, "t", p)
		s.become(well)
		decide(t, store, "other", p)
		s.before = func() {
			s.become(cut)
			decide(t, store, "t", p)
			s.become(gone)
		}
		decide(t, store, "t", p)
		s.lose()
		s.become(well)
		if d := decide(t, store, "t", p); d.Local || s.used("t", p) != 304 {
			t.Errorf("%d counted: %+v", s.used("t", p), d)
		}
	})
}

// An admission is refunded while it is uploaded, and the upload is refused. The next upload does not have it.
func TestARefundDuringARefusedUploadIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		s.become(full)
		refunded := decide(t, store, "t", p)
		s.become(well)
		s.before = func() {
			if err := store.Refund(t.Context(), "t", p, refunded); err != nil {
				t.Error(err)
			}
			s.become(full)
		}
		decide(t, store, "t", p)
		s.become(well)
		if d := decide(t, store, "t", p); d.Local || s.used("t", p) != 2 {
			t.Errorf("%d counted: %+v", s.used("t", p), d)
		}
	})
}

// A peek is decided with what is not uploaded yet, and uploads nothing.
func TestAPeekUploadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		registry := prometheus.NewRegistry()
		store := newStore(t, failover.Options{Shared: s, Registerer: registry})
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		s.become(full)
		decide(t, store, "t", p)
		s.become(well)
		for i, uploads := range []float64{0, 1} {
			if d, err := store.Peek(t.Context(), "t", p); err != nil || d.Budgets[0].Remaining != 999-i {
				t.Errorf("peeked %+v, %v", d, err)
			}
			if got := value(t, registry, "opsgate_rate_limit_store_settled_total"); got != uploads {
				t.Errorf("%v uploads, not %v", got, uploads)
			}
			decide(t, store, "t", p)
		}
	})
}

func TestConcurrentRequestsUploadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		registry := prometheus.NewRegistry()
		store := newStore(t, failover.Options{Shared: s, Registerer: registry})
		t.Cleanup(run(t, store))
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		s.become(gone)
		leave(t, store, p)
		admitted(t, store, "t", p, 100)
		s.become(well)
		awaitShared(t, store)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { decide(t, store, "t", p) })
		}
		all.Wait()
		if n := s.uploads.Load(); n != 1 || s.used("t", p) != 150 {
			t.Errorf("%d uploads, and %d are counted", n, s.used("t", p))
		}
		families, err := registry.Gather()
		if err != nil || len(families) != 6 {
			t.Errorf("%v, error %v", families, err)
		}
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("problems %v, error %v", problems, err)
		}
	})
}

func TestRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		registry := prometheus.NewRegistry()
		store := newStore(t, failover.Options{Shared: s, Registerer: registry})
		t.Cleanup(run(t, store))
		p := ratelimittest.Policy(t, limit("minute", 10, time.Minute))
		refund := func(d ratelimit.Decision, lost float64) {
			t.Helper()
			if err := store.Refund(t.Context(), "t", p, d); err != nil {
				t.Error(err)
			}
			if got := value(t, registry, "opsgate_rate_limit_store_lost_refunds_total"); got != lost {
				t.Errorf("%v refunds lost, not %v", got, lost)
			}
		}
		there := decide(t, store, "t", p)
		time.Sleep(time.Second)
		s.become(gone)
		leave(t, store, p)
		here := decide(t, store, "t", p)
		for range 2 { // once
			refund(here, 0)
		}
		for range 3 {
			here = decide(t, store, "t", p)
		}
		if here.Budgets[0].Remaining != 6 {
			t.Errorf("one spent there, and of four here one given back: %+v", here)
		}
		refund(there, 1)
		s.become(well)
		awaitShared(t, store)
		if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 5 {
			t.Errorf("got %+v", d)
		}
		refund(here, 1) // it was uploaded
		if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 5 {
			t.Errorf("after a refund of what was uploaded: %+v", d)
		}
		refund(ratelimit.Decision{Allowed: true, Local: true}, 1) // of mode allow
		refund(ratelimit.Decision{}, 1)
	})
}

// What mode allow admits is not counted, so a refund of it takes nothing out.
func TestARefundInModeAllowTakesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		registry := prometheus.NewRegistry()
		store := newStore(t, failover.Options{Shared: s, Settings: failover.Settings{Mode: ratelimit.ModeAllow}, Registerer: registry})
		t.Cleanup(run(t, store))
		p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
		decide(t, store, "t", p)
		s.become(gone)
		leave(t, store, p)
		d := decide(t, store, "t", p)
		for _, how := range []int{gone, well} {
			if s.become(how); how == well {
				awaitShared(t, store)
			}
			if err := store.Refund(t.Context(), "t", p, d); err != nil {
				t.Error(err)
			}
			if lost := value(t, registry, "opsgate_rate_limit_store_lost_refunds_total"); lost != 0 || s.used("t", p) != 1 {
				t.Errorf("%v refunds lost, %d counted", lost, s.used("t", p))
			}
		}
	})
}

// value returns the value of a metric without labels.
func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestAResetDropsUsageHereAndThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("hour", 10, time.Hour))
		admitted(t, store, "t", p, 10)
		s.become(gone)
		leave(t, store, p)
		if err := store.Reset(t.Context(), "t"); err == nil {
			t.Error("a reset while the shared store is not in use succeeds")
		}
		if n := admitted(t, store, "t", p, 10); n != 10 {
			t.Errorf("%d admitted here after the reset", n)
		}
		s.become(well)
		awaitShared(t, store)
		if err := store.Reset(t.Context(), "t"); err != nil {
			t.Error(err)
		}
		if n := admitted(t, store, "t", p, 20); n != 10 {
			t.Errorf("%d admitted after the reset", n)
		}
	})
}

var _ failover.Shared = (*sharedStore)(nil)

// Every request is answered while settings change.
func TestSettingsChangeUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("second", 1000, time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					d, err := store.Decide(ctx, fmt.Sprint(i), p)
					if err == nil && d.Allowed && i%2 == 0 {
						err = store.Refund(ctx, fmt.Sprint(i), p, d)
					}
					if err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for i := 0; ctx.Err() == nil; i++ {
			s.become([]int{well, gone, well, frozen}[i/10%4])
			store.Configure(failover.Settings{Mode: []ratelimit.Mode{ratelimit.ModeLocal, ratelimit.ModeAllow}[i%2], Replicas: 1 + i%3, ProbeEvery: 20 * time.Millisecond})
			store.Sweep()
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
	})
}
