package failover_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// uploadEvery is longer than the time between two uploads of a token.
const uploadEvery = 101 * time.Millisecond

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

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
	s.SetStallTick(time.Hour) // the clock of a bubble does not stall, and each tick costs
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

// awaitRecovery sleeps until the shared store is in use and the pause is over, five seconds at most.
func awaitRecovery(t rapid.TB, s *failover.Store) {
	t.Helper()
	for range 50 {
		time.Sleep(100 * time.Millisecond)
		if st := s.State(); st.Mode == ratelimit.ModeShared && time.Since(st.Since) > 1900*time.Millisecond {
			return
		}
	}
	t.Fatalf("after five seconds: %+v", s.State())
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

// 40 of 100 per minute are used: each of two gateways may admit 30 more.
func TestOutageStartsFromTheCachedAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		one, two := start(t, s, failover.Settings{Gateways: 2}), start(t, s, failover.Settings{Gateways: 2})
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		for range 20 {
			decide(t, one, "t", p)
			decide(t, two, "t", p)
			time.Sleep(10 * time.Millisecond)
		}
		s.become(refusing)
		beginOutage(t, one, p)
		beginOutage(t, two, p)
		if n := admitted(t, one, "t", p, 100) + admitted(t, two, "t", p, 100); n < 60 || n > 61 {
			t.Errorf("%d more admitted", n)
		}
	})
}

// Two gateways cannot halve three per second: each admits two in a second, and three in two seconds.
func TestSharesOfAnOddLimitDoNotExceedItOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		s.become(refusing)
		one, two := start(t, s, failover.Settings{Gateways: 2}), start(t, s, failover.Settings{Gateways: 2})
		p := ratelimittest.Policy(t, limit("second", 3, time.Second), limit("hour", 5000, time.Hour))
		n := 0
		for range 400 {
			for _, store := range []*failover.Store{one, two} {
				d := decide(t, store, "t", p)
				if d.Allowed {
					n++
				} else if d.DeniedBy != 0 || d.Budgets[0].Remaining != 0 {
					t.Fatalf("got %+v", d)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n < 58 || n > 63 {
			t.Errorf("%d admitted in 20 s", n)
		}
	})
}

// After an outage, the first request of a token uploads it. During the pause, the gateway decides by its share.
func TestFirstRequestAfterAnOutageUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, failover.Settings{}, limit("minute", 100, time.Minute))
		e.decide("t")
		e.beginOutage(refusing)
		e.admitted("t", 10)
		e.shared.become(working)
		for began := time.Now(); e.store.State().Mode != ratelimit.ModeShared; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("after a minute: %+v", e.store.State())
			}
		}
		if n := e.used("t"); n != 1 {
			t.Errorf("%d counted before a request", n)
		}
		if d := e.decide("t"); !d.Local || e.used("t") != 12 || e.shared.uploads.Load() != 1 {
			t.Errorf("at once: %+v, %d counted after %d uploads", d, e.used("t"), e.shared.uploads.Load())
		}
		if n := e.admitted("t", 10); n != 10 || e.shared.uploads.Load() != 1 {
			t.Errorf("of ten at once, %d were admitted, with %d uploads", n, e.shared.uploads.Load())
		}
		time.Sleep(uploadEvery)
		if d := e.decide("t"); !d.Local || e.used("t") != 23 || e.shared.uploads.Load() != 2 {
			t.Errorf("after 100 ms: %+v, %d counted after %d uploads", d, e.used("t"), e.shared.uploads.Load())
		}
		time.Sleep(750 * time.Millisecond)
		if d := e.decide("t"); d.Local || d.Budgets[0].Remaining != 76 || e.shared.uploads.Load() != 2 {
			t.Errorf("after the pause: %+v, %d uploads", d, e.shared.uploads.Load())
		}
	})
}

// The log has a line with the cause for the beginning of an outage, and a line with its duration for the end.
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
