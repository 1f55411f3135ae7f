package chaos

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// A scenario is hours of requests of a token, in a real Redis with a simulated clock.
type scenario struct {
	*ratelimittest.Clock

	store  *redisstore.Store
	policy *ratelimit.Policy
}

// newScenario starts a Redis. The limits are the default ones.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	server := redistest.Start(t)
	client, err := redisstore.NewClient(redisstore.ClientOptions{
		Addresses: []string{server.Addr()}, Timeout: maxWait, DialTimeout: maxWait, // a slow machine must not fail the test
	})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	s := &scenario{Clock: ratelimittest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	s.store, err = redisstore.New(redisstore.Options{
		Client: client, Clock: s.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	must(t, err)
	s.policy, err = ratelimit.NewPolicy([]ratelimit.Limit{
		{Name: "second", Requests: 3, Per: time.Second}, {Name: "hour", Requests: 5000, Per: time.Hour},
	})
	must(t, err)
	return s
}

func (s *scenario) request(t *testing.T) ratelimit.Decision {
	t.Helper()
	d, err := s.store.Decide(t.Context(), "token", s.policy)
	must(t, err)
	return d
}

// The token uses most of its hour evenly, and then makes requests as fast as the limits allow. So the limit of the second denies many times,
// and later that of the hour, whose admissions expire a bucket at a time.
func TestClientThatHonorsRetryAfterIsNotDeniedAgain(t *testing.T) {
	const waits = 2000
	s := newScenario(t)
	for range 4900 {
		if !s.request(t).Allowed {
			t.Fatal("denied at three in two seconds")
		}
		s.Advance(700 * time.Millisecond)
	}
	var by [2]int // limit
	again := 0
	for by[0]+by[1] < waits {
		d := s.request(t)
		if d.Allowed {
			s.Advance(10 * time.Millisecond)
			continue
		}
		by[d.DeniedBy]++
		s.Advance((d.RetryAfter + time.Second - 1).Truncate(time.Second)) // retry-after is in whole seconds
		if !s.request(t).Allowed {
			again++
		}
	}
	expectNone(t, "2", fmt.Sprintf("denied again after %d waits for the second and %d for the hour", by[0], by[1]), again)
	if by[0] < 50 || by[1] < 50 {
		t.Error("one of the limits denied fewer than 50 requests")
	}
}

func TestEvenRateUsesTheWholeHourlyLimit(t *testing.T) {
	const interval = 334 * time.Millisecond // three a second, as near as a strict window of three allows
	s := newScenario(t)
	var admitted []time.Time
	before := -1
	for range either(2*time.Hour, 65*time.Minute) / interval {
		switch d := s.request(t); {
		case d.Allowed:
			admitted = append(admitted, d.At)
		case d.DeniedBy == 1 && before < 0:
			before = len(admitted)
		}
		s.Advance(interval)
	}
	report(t, "3", "admitted before the first denial by the hour", before, 5000)
	if before != 5000 {
		t.Errorf("%d admitted before the first denial by the hour", before)
	}
	atMost(t, "3", fmt.Sprintf("admitted in any hour, of %d in all", len(admitted)), maxIn(admitted, time.Hour), 5000)
}

func TestDenialsAreNotCounted(t *testing.T) {
	const denials = 10_000
	s := newScenario(t)
	admitted, wrong := 0, 0
	for denied := 0; denied < denials; {
		d := s.request(t)
		if d.Allowed {
			admitted++
		} else {
			denied++
		}
		if d.Budgets[1].Remaining != 5000-admitted {
			wrong++
		}
		s.Advance(time.Millisecond)
	}
	expectNone(t, "4", fmt.Sprintf("responses whose remaining requests a denial reduced, of %d denials and %d admissions", denials, admitted), wrong)
}
