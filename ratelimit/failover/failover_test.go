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
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// uploadEvery is longer than a store waits before it uploads a token again.
const uploadEvery = 101 * time.Millisecond

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a store until the function that it returns is called.
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

// start runs a store in the test's bubble.
func start(t *testing.T, s *sharedStore, settings failover.Settings) *failover.Store {
	t.Helper()
	store := newStore(t, failover.Options{Shared: s, Settings: settings})
	t.Cleanup(run(t, store))
	return store
}

func decide(t rapid.TB, s *failover.Store, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.Decide(context.Background(), token, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// admitted counts how many of so many requests at once are admitted.
func admitted(t rapid.TB, s *failover.Store, token string, p *ratelimit.Policy, requests int) (n int) {
	t.Helper()
	for range requests {
		if decide(t, s, token, p).Allowed {
			n++
		}
	}
	return n
}

// leave has the store give up on a shared one that is not well: it takes three failures.
func leave(t rapid.TB, s *failover.Store, p *ratelimit.Policy) {
	t.Helper()
	for i := range 3 {
		decide(t, s, fmt.Sprint("scout ", i), p)
	}
	if s.State().Mode == ratelimit.ModeShared {
		t.Fatalf("three failures: %+v", s.State())
	}
}

// awaitShared lets time pass until all tokens have gone back to the shared store, and holds that against the time allowed.
func awaitShared(t rapid.TB, s *failover.Store) {
	t.Helper()
	for range 50 {
		time.Sleep(100 * time.Millisecond)
		if st := s.State(); st.Mode == ratelimit.ModeShared && time.Since(st.Since) > 1900*time.Millisecond {
			return
		}
	}
	t.Fatalf("after five seconds: %+v", s.State())
}

func TestAHealthySharedStoreDecides(t *testing.T) {
	ratelimittest.Run(t, func(t rapid.TB) ratelimittest.Subject {
		now := time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
		clock := func() time.Time { return now }
		s := newStore(t, failover.Options{Shared: newShared(clock), Clock: clock})
		return ratelimittest.Subject{Store: s, Now: clock, Advance: func(d time.Duration) {
			now = now.Add(d)
			if d < 0 {
				s.DropDenial("") // the clock of a gateway is not set back, and a denial that it repeats ends when it was told to
			}
		}}
	})
}

func TestTheModes(t *testing.T) {
	for mode, check := range map[ratelimit.Mode]func(t *testing.T, d ratelimit.Decision, err error){
		ratelimit.ModeAllow: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			if err != nil || !d.Allowed || !d.Local || d.Budgets[0].Remaining != 1 || d.Denied != -1 || d.Shadowed != -1 {
				t.Errorf("got %+v, %v", d, err)
			}
		},
		ratelimit.ModeDeny: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			away, ok := errors.AsType[*ratelimit.UnavailableError](err)
			if !ok || away.RetryAfter < time.Second || away.RetryAfter > 3*time.Second || d.Allowed {
				t.Errorf("got %+v, %v", d, err)
			}
		},
		ratelimit.ModeLocal: func(t *testing.T, d ratelimit.Decision, err error) {
			t.Helper()
			if err != nil || d.Allowed || !d.Local || d.Denied != 0 || d.RetryAfter <= 0 {
				t.Errorf("got %+v, %v", d, err)
			}
		},
	} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared(time.Now)
				store := start(t, s, failover.Settings{ProbeEvery: 2 * time.Second})
				p := ratelimittest.Policy(t, limit("minute", 1, time.Minute))
				decide(t, store, "t", p)
				store.Configure(failover.Settings{Mode: mode, ProbeEvery: 2 * time.Second})
				s.become(gone)
				for range 5 {
					d, err := store.Decide(t.Context(), "t", p)
					check(t, d, err)
					d, err = store.Peek(t.Context(), "t", p)
					check(t, d, err)
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// Of 100 a minute, 40 are spent: each of two gateways may admit 30 more.
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
		s.become(gone)
		leave(t, one, p)
		leave(t, two, p)
		if n := admitted(t, one, "t", p, 100) + admitted(t, two, "t", p, 100); n < 60 || n > 61 {
			t.Errorf("%d more admitted", n)
		}
	})
}

// Two gateways cannot halve three a second: they admit two each, and three in two seconds.
func TestAnUnevenLimitIsNotPassedOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		s.become(gone)
		one, two := start(t, s, failover.Settings{Replicas: 2}), start(t, s, failover.Settings{Replicas: 2})
		p := ratelimittest.Policy(t, limit("second", 3, time.Second), limit("hour", 5000, time.Hour))
		n := 0
		for range 400 {
			for _, store := range []*failover.Store{one, two} {
				d := decide(t, store, "t", p)
				if d.Allowed {
					n++
				} else if d.Denied != 0 || d.Budgets[0].Remaining != 0 {
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

// After an outage, a token is uploaded at its first request, and decided by the gateway's share until other gateways have uploaded as well.
func TestTheFirstRequestAfterAnOutageUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		store := start(t, s, failover.Settings{})
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		decide(t, store, "t", p)
		s.become(gone)
		leave(t, store, p)
		admitted(t, store, "t", p, 10)
		s.become(well)
		for store.State().Mode != ratelimit.ModeShared {
			time.Sleep(time.Millisecond)
		}
		if n := s.used("t", p); n != 1 {
			t.Errorf("%d are counted before a request", n)
		}
		if d := decide(t, store, "t", p); !d.Local || s.used("t", p) != 12 || s.uploads.Load() != 1 {
			t.Errorf("at once: %+v, %d counted after %d uploads", d, s.used("t", p), s.uploads.Load())
		}
		if n := admitted(t, store, "t", p, 10); n != 10 || s.uploads.Load() != 1 {
			t.Errorf("of ten at once, %d were admitted, with %d uploads", n, s.uploads.Load())
		}
		time.Sleep(uploadEvery)
		if d := decide(t, store, "t", p); !d.Local || s.used("t", p) != 23 || s.uploads.Load() != 2 {
			t.Errorf("after 100 ms: %+v, %d counted after %d uploads", d, s.used("t", p), s.uploads.Load())
		}
		time.Sleep(750 * time.Millisecond)
		if d := decide(t, store, "t", p); d.Local || d.Budgets[0].Remaining != 76 || s.uploads.Load() != 2 {
			t.Errorf("after the pause: %+v, %d uploads", d, s.uploads.Load())
		}
	})
}

// The beginning and the end of an outage are logged once each, with the cause; the end with the duration.
func TestEachChangeIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(time.Now)
		var said bytes.Buffer
		store := newStore(t, failover.Options{Shared: s, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		stop := run(t, store)
		p := ratelimittest.Policy(t, limit("minute", 100, time.Minute))
		s.become(gone)
		leave(t, store, p)
		time.Sleep(10 * time.Second)
		s.become(well)
		awaitShared(t, store)
		stop()
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "not in use") || !strings.Contains(lines[0], "refused") || !strings.Contains(lines[0], "mode=local") ||
			!strings.Contains(lines[1], "in use again") || !strings.Contains(lines[1], "away_for=10.") {
			t.Errorf("got\n%s", said.String())
		}
	})
}
