package failover_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"pgregory.net/rapid"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisclient"
)

func TestMain(m *testing.M) {
	redisclient.LogTo(slog.New(slog.DiscardHandler))
	testkit.VerifyTestMain(m)
}

func limit(name string, requests int, per time.Duration) ratelimit.Limit {
	return ratelimit.Limit{Name: name, Requests: requests, Per: per}
}

func newStore(t rapid.TB, o failover.Options) *failover.Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	s, err := failover.New(o)
	testkit.Must(t, err)
	return s
}

// run runs a store until stop is called.
func run(t rapid.TB, s *failover.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// start returns a store that runs until the end of the test.
func start(t *testing.T, s *sharedStore, settings failover.Settings) *failover.Store {
	t.Helper()
	store := newStore(t, failover.Options{Shared: s, Settings: settings})
	t.Cleanup(run(t, store))
	return store
}

func decide(t rapid.TB, s *failover.Store, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.Decide(context.Background(), token, p)
	testkit.Must(t, err)
	return d
}

// admitted makes requests at once and returns the number of admitted ones.
func admitted(t rapid.TB, s *failover.Store, token string, p *ratelimit.Policy, requests int) (n int) {
	t.Helper()
	for range requests {
		if decide(t, s, token, p).Allowed {
			n++
		}
	}
	return n
}

// beginOutage makes three requests, whose calls fail, and checks that an outage has begun.
func beginOutage(t rapid.TB, s *failover.Store, p *ratelimit.Policy) {
	t.Helper()
	for i := range 3 {
		decide(t, s, fmt.Sprint("probe ", i), p)
	}
	if s.State().Mode == ratelimit.ModeShared {
		t.Fatalf("after three failures: %+v", s.State())
	}
}

// awaitRecovery sleeps until the shared store is in use.
func awaitRecovery(t rapid.TB, s *failover.Store) {
	t.Helper()
	for range 50 {
		if time.Sleep(100 * time.Millisecond); s.State().Mode == ratelimit.ModeShared {
			return
		}
	}
	t.Fatalf("after five seconds: %+v", s.State())
}

// An env is a shared store, a store that runs until the end of the test, and a policy.
type env struct {
	t       *testing.T
	shared  *sharedStore
	store   *failover.Store
	metrics *prometheus.Registry
	policy  *ratelimit.Policy
}

func newEnv(t *testing.T, settings failover.Settings, limits ...ratelimit.Limit) *env {
	t.Helper()
	e := &env{t: t, shared: newShared(), metrics: prometheus.NewRegistry(), policy: ratelimittest.Policy(t, limits...)}
	e.store = newStore(t, failover.Options{Shared: e.shared, Settings: settings, Registerer: e.metrics})
	t.Cleanup(run(t, e.store))
	return e
}

func (e *env) decide(token string) ratelimit.Decision {
	e.t.Helper()
	return decide(e.t, e.store, token, e.policy)
}

// admitted makes requests at once and returns the number of admitted ones.
func (e *env) admitted(token string, requests int) int {
	e.t.Helper()
	return admitted(e.t, e.store, token, e.policy, requests)
}

// used returns the number of admissions that count in the shared store.
func (e *env) used(token string) int { return e.shared.used(token, e.policy) }

// beginOutage makes the shared store fail until the store begins an outage.
func (e *env) beginOutage(c condition) {
	e.t.Helper()
	e.shared.become(c)
	beginOutage(e.t, e.store, e.policy)
}

// endOutage makes the shared store work, and returns when it is in use.
func (e *env) endOutage() {
	e.t.Helper()
	e.shared.become(working)
	awaitRecovery(e.t, e.store)
}

// metric returns the value of a counter without labels.
func (e *env) metric(name string) float64 {
	e.t.Helper()
	families, err := e.metrics.Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	e.t.Fatalf("no metric %s", name)
	return 0
}

func TestStoreWithAWorkingSharedStoreConforms(t *testing.T) {
	ratelimittest.Run(t, func(t rapid.TB) ratelimittest.Subject {
		now := time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
		clock := func() time.Time { return now }
		shared := newShared()
		shared.clock = clock
		s := newStore(t, failover.Options{Shared: shared, Clock: clock})
		return ratelimittest.Subject{Stores: []ratelimit.Store{s}, Now: clock, Advance: func(d time.Duration) {
			now = now.Add(d)
			if d < 0 {
				s.DropDenial("") // gateways have monotonic clocks, so cached denials need not survive this
			}
		}}
	})
}

func TestEachModeDecidesDuringAnOutage(t *testing.T) {
	for mode, check := range map[ratelimit.Mode]func(t *testing.T, d ratelimit.Decision, err error){
		ratelimit.ModeAllow: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			if err != nil || !d.Allowed || !d.Local || d.Budgets[0].Remaining != 1 || d.DeniedBy != -1 || d.ShadowDeniedBy != -1 {
				t.Errorf("got %+v, %v", d, err)
			}
		},
		ratelimit.ModeDeny: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			unavailable, ok := errors.AsType[*ratelimit.UnavailableError](err)
			if !ok || unavailable.RetryAfter < time.Second || unavailable.RetryAfter > 3*time.Second || d.Allowed {
				t.Errorf("got %+v, %v", d, err)
			}
		},
		ratelimit.ModeLocal: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			if err != nil || d.Allowed || !d.Local || d.DeniedBy != 0 || d.RetryAfter <= 0 {
				t.Errorf("got %+v, %v", d, err)
			}
		},
	} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, failover.Settings{ProbeEvery: 2 * time.Second}, limit("minute", 1, time.Minute))
				e.decide("t")
				e.store.Configure(failover.Settings{Mode: mode, ProbeEvery: 2 * time.Second})
				e.shared.become(refusing)
				for range 5 {
					d, err := e.store.Decide(t.Context(), "t", e.policy)
					check(t, d, err)
					d, err = e.store.Peek(t.Context(), "t", e.policy)
					check(t, d, err)
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// The shared store is not called, and no mode admits the request.
func TestBlockedRequestsAreDeniedInEachMode(t *testing.T) {
	for _, mode := range []ratelimit.Mode{ratelimit.ModeShared, ratelimit.ModeLocal, ratelimit.ModeAllow, ratelimit.ModeDeny} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, failover.Settings{}, limit("minute", 0, time.Minute))
			if mode != ratelimit.ModeShared {
				e.store.Configure(failover.Settings{Mode: mode})
				e.shared.become(refusing)
				e.store.ProbeFirst(t.Context())
			}
			before := e.shared.decides.Load()
			if got := e.store.State().Mode; got != mode {
				t.Fatalf("mode %s, want %s", got, mode)
			}
			if d := e.decide("t"); d.Allowed || d.Local || d.RetryAfter != time.Minute || e.shared.decides.Load() != before {
				t.Errorf("%s: got %+v after %d calls", mode, d, e.shared.decides.Load()-before)
			}
		})
	}
}

// A call that fails is decided and counted locally, and the next call of the token carries it, or a
// second later one of the background loop. A peek and a probe carry nothing.
func TestFailedCallIsUploadedOnce(t *testing.T) {
	for name, next := range map[string]func(e *env){
		"by the next call": func(e *env) {
			if _, err := e.store.Peek(e.t.Context(), "t", e.policy); err != nil || e.shared.uploads.Load() > 0 {
				e.t.Errorf("a peek: %d uploads, %v", e.shared.uploads.Load(), err)
			}
			e.store.ProbeFirst(e.t.Context())
			if d := e.decide("t"); d.Local || d.Budgets[0].Remaining != 97 {
				e.t.Errorf("got %+v", d)
			}
		},
		"in the background": func(e *env) {
			time.Sleep(1100 * time.Millisecond)
			if n := e.used("t"); n != 2 {
				e.t.Errorf("%d counted before the next call", n)
			}
			e.decide("t")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, failover.Settings{}, limit("minute", 100, time.Minute))
				e.decide("t")
				e.shared.become(failing)
				if d := e.decide("t"); !d.Local || d.Budgets[0].Remaining != 98 {
					t.Errorf("got %+v", d)
				}
				e.shared.become(working)
				next(e)
				time.Sleep(10 * time.Second)
				if n := e.shared.uploads.Load(); n != 1 || e.used("t") != 3 || e.metric("opsgate_rate_limit_store_uploads_total") != 1 {
					t.Errorf("%d uploads, %d counted", n, e.used("t"))
				}
			})
		})
	}
}

// An upload that was not executed is made again, and one without an answer is not, whatever happens
// during the call.
func TestUploadIsRepeatedOnlyIfItWasNotExecuted(t *testing.T) {
	for name, meanwhile := range map[string]func(e *env, first ratelimit.Decision){
		"nothing":           func(*env, ratelimit.Decision) {},
		"a refund":          func(e *env, first ratelimit.Decision) { _ = e.store.Refund(e.t.Context(), "t", first) }, // fails
		"another's refund":  func(e *env, _ ratelimit.Decision) { e.store.DropDenial("t") },
		"a subscription":    func(e *env, _ ratelimit.Decision) { e.store.DropDenial("") },
		"a sweep":           func(e *env, _ ratelimit.Decision) { e.store.Sweep() },
		"another's request": func(e *env, _ ratelimit.Decision) { _, _ = e.store.Peek(e.t.Context(), "t", e.policy) },
	} {
		for condition, want := range map[condition]int{refusing: 4, failing: 4, unreachable: 3} { // an upload of one admission
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, failover.Settings{}, limit("minute", 100, time.Minute))
				first := e.decide("t")
				e.shared.become(failing)
				e.decide("t")
				e.shared.become(condition)
				e.shared.duringNextCall(func() { meanwhile(e, first) })
				e.decide("t")
				if e.store.State().Mode != ratelimit.ModeShared {
					e.endOutage()
				}
				e.shared.become(working)
				e.decide("t")
				if n := e.used("t"); n != want {
					t.Errorf("%s, %v: %d counted, not %d", name, condition, n, want)
				}
			})
		}
	}
}

// While a call carries admissions, they count in the gateway's share, and can be refunded.
func TestAdmissionsInFlightCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{Gateways: 2}, limit("minute", 10, time.Minute))
		e.beginOutage(refusing)
		if n := e.admitted("t", 10); n != 5 {
			t.Fatalf("the share is %d", n)
		}
		e.endOutage()
		e.shared.duringNextCall(func() {
			e.shared.become(failing)
			if n := e.admitted("t", 5); n != 0 {
				t.Errorf("%d more than the share", n)
			}
		})
		e.decide("t")
	})
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("minute", 10, time.Minute))
		e.shared.become(failing)
		d := e.decide("t")
		e.shared.duringNextCall(func() { _ = e.store.Refund(t.Context(), "t", d) })
		e.decide("t")
		e.endOutage()
		e.decide("t")
		if n := e.used("t"); n != 2 {
			t.Errorf("%d counted, of three of which one was refunded", n)
		}
	})
}

// 200 tokens a second are uploaded in the background.
func TestTokensAreUploadedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("hour", 100, time.Hour))
		e.beginOutage(refusing)
		for i := range 597 { // with those of beginOutage, 600
			e.decide(fmt.Sprint(i))
		}
		e.endOutage()
		time.Sleep(1500 * time.Millisecond)
		if n := e.shared.uploads.Load(); n < 200 || n > 400 {
			t.Errorf("%d uploads after a second or two", n)
		}
		time.Sleep(2 * time.Second)
		if n := e.shared.uploads.Load(); n != 600 {
			t.Errorf("%d uploads", n)
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
		if e.used("t") != 150 {
			t.Errorf("%d counted", e.used("t"))
		}
		families, err := e.metrics.Gather()
		if err != nil || len(families) != 6 {
			t.Errorf("%v, error %v", families, err)
		}
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("problems %v, error %v", problems, err)
		}
	})
}

// The log has a line with the cause for the beginning of an outage, and a line with its duration
// for the end.
func TestBeginningAndEndOfAnOutageAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		var log bytes.Buffer
		store := newStore(t, failover.Options{Shared: s, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := run(t, store)
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		s.become(refusing)
		beginOutage(t, store, p)
		time.Sleep(10 * time.Second)
		s.become(working)
		awaitRecovery(t, store)
		stop()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "not in use") || !strings.Contains(lines[0], "refused") || !strings.Contains(lines[0], "mode=local") ||
			!strings.Contains(lines[1], "in use again") {
			t.Fatalf("got\n%s", log.String())
		}
		_, rest, _ := strings.Cut(lines[1], "lasted=")
		text, _, _ := strings.Cut(rest, " ")
		if d, err := time.ParseDuration(text); err != nil || d < 10*time.Second || d >= 11*time.Second {
			t.Errorf("the outage took %v (%v):\n%s", d, err, log.String())
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
		refund(local, 0)
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
		if n := e.admitted("t", 10); n != 0 {
			t.Errorf("%d admitted locally after a reset that failed", n)
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

// A token has usage while its account or a local admission counts.
func TestSweepDropsTokensWithoutUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("minute", 100, time.Minute))
		expect := func(after time.Duration, tokens int) {
			t.Helper()
			time.Sleep(after)
			e.store.Sweep()
			if n := e.store.Entries(); n != tokens {
				t.Fatalf("%d tokens, not %d", n, tokens)
			}
		}
		e.decide("shared")
		_, err := e.store.Peek(t.Context(), "peeked", e.policy)
		testkit.Must(t, err)
		e.shared.become(unreachable)
		e.decide("unanswered")
		e.shared.become(failing)
		e.decide("own")
		expect(30*time.Second, 3)
		e.decide("own")
		expect(32*time.Second, 1)
		expect(30*time.Second, 0)
	})
}
