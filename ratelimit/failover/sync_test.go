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

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// Admissions before and during an outage count once, whether or not the shared store loses its accounts.
func TestAdmissionsCountOnceAfterAnOutage(t *testing.T) {
	for condition, name := range map[condition]string{refusing: "refusing", hanging: "hanging", unreachable: "unreachable"} {
		for _, lost := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, lost %t", name, lost), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newShared()
					one, two := start(t, s, failover.Settings{Gateways: 2}), start(t, s, failover.Settings{Gateways: 2})
					p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
					for range 200 {
						decide(t, one, "t", p)
						decide(t, two, "t", p)
						time.Sleep(time.Second)
					}
					decide(t, one, "t", p) // its account has the admissions of both
					s.become(condition)
					beginOutage(t, one, p)
					beginOutage(t, two, p)
					if n := admitted(t, one, "t", p, 100) + admitted(t, two, "t", p, 50); n != 150 {
						t.Fatalf("%d of 150 admitted", n)
					}
					time.Sleep(10 * time.Second)
					if lost {
						s.lose()
					}
					s.become(working)
					awaitRecovery(t, one)
					awaitRecovery(t, two)
					decide(t, one, "t", p)
					decide(t, two, "t", p)
					if n := s.used("t", p); n != 401+150+2 {
						t.Errorf("%d counted, %d admitted", n, 401+150+2)
					}
				})
			})
		}
	}
}

// A quick restart causes one error only: a refused connection, or one that breaks, also within an answer.
func TestUsageSurvivesAQuickRestart(t *testing.T) {
	for _, broken := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		t.Run(broken.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared()
				s.broken = broken
				store := start(t, s, failover.Settings{})
				p := ratelimittest.Policy(t, limit("hour", 1000, time.Hour))
				admitted(t, store, "t", p, 300)
				s.become(refusing)
				decide(t, store, "other", p)
				s.lose()
				s.become(working)
				if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 699 {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

// An upload is executed and not answered. It is repeated, and counts once, whether or not the shared store lost it since.
func TestUploadWithoutAnAnswerCountsOnce(t *testing.T) {
	for _, lost := range []bool{true, false} {
		t.Run(fmt.Sprintf("lost %t", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
				e.admitted("t", 300)
				time.Sleep(time.Second)
				e.beginOutage(refusing)
				e.admitted("t", 100)
				e.endOutage()
				e.shared.unanswered = 1
				if d := e.decide("t"); !d.Local { // a local admission
					t.Fatalf("got %+v", d)
				}
				if lost {
					e.shared.lose()
				}
				time.Sleep(uploadEvery)
				if d := e.decide("t"); d.Local || d.Budgets[0].Remaining != 1000-402 {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

// Calls that time out are executed later, so their local admissions are not uploaded.
func TestCallThatTimesOutCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
		for i := range 20 {
			e.shared.become([]condition{working, working, hanging}[i%3])
			e.decide("t")
			e.shared.become(working)
		}
		if d := e.decide("t"); d.Local || d.Budgets[0].Remaining != 1000-21 {
			t.Errorf("got %+v", d)
		}
	})
}

// Two a second, by three gateways: in three seconds, one of them admits two. Its calls time out and begin no outage.
func TestCallsThatTimeOutCountInTheLongerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{Gateways: 3}, limit("second", 2, time.Second))
		n := 0
		for range 3 {
			e.shared.become(unreachable)
			n += e.admitted("t", 1)
			e.shared.become(working)
			e.decide("other")
			time.Sleep(980 * time.Millisecond)
		}
		if n != 2 {
			t.Errorf("%d admitted in three seconds", n)
		}
	})
}

// Two a second, by 3,000 gateways: after two calls that timed out 25 minutes apart, the period is not over.
func TestCallsThatTimeOutCountInAsManyWindowsAsThereAreGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{Gateways: 3000}, limit("second", 2, time.Second))
		e.shared.become(unreachable)
		for i, want := range []int{1, 1, 0} {
			if n := e.admitted("t", 1); n != want {
				t.Errorf("request %d: %d admitted", i, n)
			}
			time.Sleep(25 * time.Minute / time.Duration(1+i))
		}
	})
}

// Calls and uploads that were not executed are uploaded by the next request.
func TestRefusedUploadIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 50, time.Hour))
		e.admitted("t", 10)
		e.shared.become(failing)
		if n := e.admitted("t", 2); n != 2 || e.used("t") != 10 {
			t.Fatalf("%d admitted, %d counted", n, e.used("t"))
		}
		e.shared.become(working)
		if d := e.decide("t"); d.Local || e.used("t") != 13 {
			t.Errorf("%d counted, 13 admitted: %+v", e.used("t"), d)
		}
	})
}

func TestUploadDoesNotEndWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
		e.shared.become(failing)
		e.decide("t")
		e.shared.become(working)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if d, err := e.store.Decide(ctx, "t", e.policy); err != nil || d.Local || e.used("t") != 2 {
			t.Errorf("%d counted: %+v, %v", e.used("t"), d, err)
		}
	})
}

// A call is executed after a restart that the gateway notices by another call. Its account lacks the lost admissions, which are uploaded.
func TestAnswerAfterARestartDoesNotReplaceTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
		e.admitted("t", 300)
		e.shared.before = func() {
			e.shared.become(refusing)
			e.decide("other")
			e.shared.lose()
			e.shared.become(working)
		}
		e.decide("t")
		if d := e.decide("t"); d.Local || e.used("t") != 302 {
			t.Errorf("%d counted: %+v", e.used("t"), d)
		}
	})
}

// A call is executed before a restart, and ends while a later call of its token is in flight. The later account lacks its admission, which
// is uploaded.
func TestCallFromBeforeARestartCountsBesideALaterCall(t *testing.T) {
	for name, prepare := range map[string]func(e *env) (admitted int){
		"first call":         func(*env) int { return 0 },
		"later call uploads": func(e *env) int { return e.admitted("t", 10) },
		"no answer": func(e *env) int {
			e.shared.become(failing)
			e.decide("t")
			e.shared.become(working)
			e.decide("another")
			e.shared.unanswered = 1 // the upload of the next call
			return 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, failover.Settings{}, limit("hour", 50, time.Hour))
				before := prepare(e)
				ended := make(chan struct{})
				var later sync.WaitGroup
				e.shared.inCall = func() {
					e.shared.become(refusing)
					e.decide("other")
					e.shared.lose()
					e.shared.become(working)
					e.shared.inCall = func() { <-ended }
					later.Go(func() { e.decide("t") })
					synctest.Wait()
				}
				e.decide("t")
				close(ended)
				later.Wait()
				if d := e.decide("t"); d.Local || e.used("t") != before+3 {
					t.Errorf("%d counted, %d admitted: %+v", e.used("t"), before+3, d)
				}
			})
		})
	}
}

// The shared store may answer a request before it has executed an upload of the token. The account of that answer is not kept.
func TestAnswerDuringAnUploadDoesNotReplaceTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
		e.admitted("t", 300)
		e.shared.become(refusing)
		e.decide("other")
		e.shared.lose()
		e.shared.become(working)
		e.shared.before = func() {
			if d := e.decide("t"); d.Local || e.used("t") != 1 {
				t.Errorf("%d counted: %+v", e.used("t"), d)
			}
			e.shared.become(unreachable)
		}
		e.decide("t")
		e.shared.become(working)
		if d := e.decide("t"); d.Local || e.used("t") != 303 {
			t.Errorf("%d counted: %+v", e.used("t"), d)
		}
	})
}

// A call times out during an upload that is refused. Both requests were admitted, and count after a restart.
func TestCallWithoutAnAnswerDuringARefusedUploadCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
		e.admitted("t", 300)
		e.shared.become(failing)
		e.decide("t")
		e.shared.become(working)
		e.decide("other")
		e.shared.before = func() {
			e.shared.become(unreachable)
			e.decide("t")
			e.shared.become(refusing)
		}
		e.decide("t")
		e.shared.lose()
		e.shared.become(working)
		if d := e.decide("t"); d.Local || e.used("t") != 304 {
			t.Errorf("%d counted: %+v", e.used("t"), d)
		}
	})
}

// An admission is refunded while it is uploaded, and the upload is refused. The next upload lacks the admission.
func TestRefundDuringARefusedUploadApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
		e.shared.become(failing)
		refunded := e.decide("t")
		e.shared.become(working)
		e.shared.before = func() {
			if err := e.store.Refund(t.Context(), "t", refunded); err != nil {
				t.Error(err)
			}
			e.shared.become(failing)
		}
		e.decide("t")
		e.shared.become(working)
		if d := e.decide("t"); d.Local || e.used("t") != 2 {
			t.Errorf("%d counted: %+v", e.used("t"), d)
		}
	})
}

// A peek is decided with the admissions that are not uploaded yet, and does not upload them.
func TestPeekUploadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
		e.shared.become(failing)
		e.decide("t")
		e.shared.become(working)
		for i, uploads := range []float64{0, 1} {
			if d, err := e.store.Peek(t.Context(), "t", e.policy); err != nil || d.Budgets[0].Remaining != 999-i {
				t.Errorf("peeked %+v, %v", d, err)
			}
			if got := e.metric("opsgate_rate_limit_store_uploads_total"); got != uploads {
				t.Errorf("%v uploads, not %v", got, uploads)
			}
			e.decide("t")
		}
	})
}

func TestConcurrentRequestsUploadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 1000, time.Hour))
		e.beginOutage(refusing)
		e.admitted("t", 100)
		e.endOutage()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { e.decide("t") })
		}
		all.Wait()
		if n := e.shared.uploads.Load(); n != 1 || e.used("t") != 150 {
			t.Errorf("%d uploads, %d counted", n, e.used("t"))
		}
		families, err := e.metrics.Gather()
		if err != nil || len(families) != 7 {
			t.Errorf("%v, error %v", families, err)
		}
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("problems %v, error %v", problems, err)
		}
	})
}

func TestRefundsBeforeDuringAndAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("minute", 10, time.Minute))
		refund := func(d ratelimit.Decision, lost float64) {
			t.Helper()
			if err := e.store.Refund(t.Context(), "t", d); err != nil {
				t.Error(err)
			}
			if got := e.metric("opsgate_rate_limit_store_lost_refunds_total"); got != lost {
				t.Errorf("%v refunds lost, not %v", got, lost)
			}
		}
		shared := e.decide("t")
		time.Sleep(time.Second)
		e.beginOutage(refusing)
		local := e.decide("t")
		for range 2 { // the second one does nothing
			refund(local, 0)
		}
		for range 3 {
			local = e.decide("t")
		}
		if local.Budgets[0].Remaining != 6 {
			t.Errorf("one shared admission, four local ones, one of them refunded: %+v", local)
		}
		refund(shared, 1)
		e.endOutage()
		if d := e.decide("t"); d.Local || d.Budgets[0].Remaining != 5 {
			t.Errorf("got %+v", d)
		}
		refund(local, 1) // it was uploaded
		if d := e.decide("t"); d.Local || d.Budgets[0].Remaining != 5 {
			t.Errorf("after a refund of an uploaded admission: %+v", d)
		}
		refund(ratelimit.Decision{Allowed: true, Local: true}, 1) // of mode allow
		refund(ratelimit.Decision{}, 1)
	})
}

// Admissions in mode allow are not counted, so their refunds change nothing.
func TestRefundInModeAllowChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{Mode: ratelimit.ModeAllow}, limit("hour", 1000, time.Hour))
		e.decide("t")
		e.beginOutage(refusing)
		d := e.decide("t")
		for _, c := range []condition{refusing, working} {
			if e.shared.become(c); c == working {
				awaitRecovery(t, e.store)
			}
			if err := e.store.Refund(t.Context(), "t", d); err != nil {
				t.Error(err)
			}
			if lost := e.metric("opsgate_rate_limit_store_lost_refunds_total"); lost != 0 || e.used("t") != 1 {
				t.Errorf("%v refunds lost, %d counted", lost, e.used("t"))
			}
		}
	})
}

func TestResetDropsLocalAndSharedUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 10, time.Hour))
		e.admitted("t", 10)
		e.beginOutage(refusing)
		if err := e.store.Reset(t.Context(), "t"); err == nil {
			t.Error("a reset during an outage succeeds")
		}
		if n := e.admitted("t", 10); n != 10 {
			t.Errorf("%d admitted locally after the reset", n)
		}
		e.endOutage()
		if err := e.store.Reset(t.Context(), "t"); err != nil {
			t.Error(err)
		}
		if n := e.admitted("t", 20); n != 10 {
			t.Errorf("%d admitted after the reset", n)
		}
	})
}

var _ failover.Shared = (*sharedStore)(nil)
