package ratelimit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

func newClock() *ratelimittest.Clock {
	return ratelimittest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC))
}

func TestMemory(t *testing.T) {
	ratelimittest.Run(t, func(rapid.TB) ratelimittest.Subject {
		c := newClock()
		return ratelimittest.Subject{Stores: []ratelimit.Store{ratelimit.NewMemory(c.Now)}, Now: c.Now, Advance: c.Advance}
	})
}

func specified(tb rapid.TB) *ratelimit.Policy {
	return ratelimittest.Policy(tb, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour})
}

func TestInvalidPoliciesAreRefused(t *testing.T) {
	good := ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}
	for name, c := range map[string]struct {
		limits []ratelimit.Limit
		want   string
	}{
		"none":        {nil, "1 to 4 limits"},
		"too many":    {make([]ratelimit.Limit, 5), "1 to 4 limits"},
		"no name":     {[]ratelimit.Limit{{Requests: 1, Per: time.Second}}, "no name"},
		"negative":    {[]ratelimit.Limit{{Name: "a", Requests: -1, Per: time.Second}}, "requests must be"},
		"shadow of 0": {[]ratelimit.Limit{good, {Name: "a", Per: time.Hour, Shadow: true}}, "in shadow with 0 requests"},
		"too short":   {[]ratelimit.Limit{{Name: "a", Requests: 1, Per: time.Microsecond}}, "per must be"},
		"too long":    {[]ratelimit.Limit{{Name: "a", Requests: 1, Per: 32 * 24 * time.Hour}}, "per must be"},
		"same name":   {[]ratelimit.Limit{good, {Name: "second", Requests: 3, Per: time.Hour}}, "name of another"},
		"same length": {[]ratelimit.Limit{good, {Name: "other", Requests: 9, Per: time.Second}}, "has the same length 1s"},
	} {
		if _, err := ratelimit.NewPolicy(c.limits); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// The figures are in docs/develop/rate-limiter.md. The largest account has 65 times of each limit
// in shadow; one limit must be enforced.
func TestLargestAccounts(t *testing.T) {
	largest := ratelimittest.Policy(t, limit("second", 64, time.Second),
		shadow(limit("minute", 64, time.Minute)), shadow(limit("hour", 64, time.Hour)), shadow(limit("day", 64, 24*time.Hour)))
	now := newClock().Now()
	fill := func(p *ratelimit.Policy, requests int, gap time.Duration) (most int) {
		var a ratelimit.Account
		for i := range requests {
			a, _, _ = p.ExecuteExchange(a, ratelimit.Exchange{}, now.Add(time.Duration(i)*gap))
			most = max(most, len(a))
		}
		return most
	}
	if d, l := fill(specified(t), 15_000, 250*time.Millisecond), fill(largest, 100, 15625*time.Microsecond); d > 193 || l != 1899 {
		t.Errorf("%d bytes by default, %d at most", d, l)
	}
}

func TestSweepDropsTokensWithoutUsage(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(c.Now)
	p := specified(t)
	for i := range 1000 {
		_, _ = m.Decide(t.Context(), fmt.Sprint(i), p)
	}
	c.Advance(30 * time.Minute)
	_, _ = m.Decide(t.Context(), "late", p)
	m.Sweep()
	if n := m.Len(); n != 1001 {
		t.Errorf("%d tokens within the hour", n)
	}
	c.Advance(31*time.Minute + time.Second)
	m.Sweep()
	if n := m.Len(); n != 1 {
		t.Errorf("%d tokens after the hour", n)
	}
}

func TestSweepDropsTokensAfterTheClockWasSetBack(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(c.Now)
	_, _ = m.Decide(t.Context(), "t", specified(t))
	c.Advance(-365 * 24 * time.Hour)
	m.Sweep()
	c.Advance(62 * time.Minute)
	m.Sweep()
	if n := m.Len(); n != 0 {
		t.Errorf("%d tokens an hour later", n)
	}
}

func TestRunSweepsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := ratelimit.NewMemory(time.Now)
		_, _ = m.Decide(ctx, "t", ratelimittest.Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}))
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		time.Sleep(time.Minute)
		if n := m.Len(); n != 0 {
			t.Errorf("%d tokens after a minute", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The clock jumps ahead, the token is swept, and the clock jumps back. A decision from before that
// refunds no later admission.
func TestRefundFromBeforeASweepChangesNothing(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(c.Now)
	p := specified(t)
	earlier, _ := m.Decide(t.Context(), "t", p)
	c.Advance(24 * time.Hour)
	m.Sweep()
	c.Advance(time.Millisecond - 24*time.Hour)
	for range 3 {
		_, _ = m.Decide(t.Context(), "t", p)
	}
	_ = m.Refund(t.Context(), "t", earlier)
	if d, _ := m.Decide(t.Context(), "t", p); d.Allowed {
		t.Errorf("fourth request: %+v", d)
	}
}

// An empty state of a short window shows that the admissions of a longer one are older.
func TestNewLimitIsFilledFromTheClosestWindow(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(c.Now)
	limits := []ratelimit.Limit{{Name: "short", Requests: 100, Per: time.Second}, {Name: "long", Requests: 5000, Per: time.Hour}}
	before := ratelimittest.Policy(t, limits...)
	for range 100 {
		_, _ = m.Decide(t.Context(), "t", before)
	}
	c.Advance(1100 * time.Millisecond)
	limits[0].Per = 900 * time.Millisecond
	if d, _ := m.Decide(t.Context(), "t", ratelimittest.Policy(t, limits...)); !d.Allowed || d.Budgets[0].Remaining != 99 || d.Budgets[1].Remaining != 4899 {
		t.Errorf("all admissions are more than a second old: %+v", d)
	}
}

func TestConcurrentRefundsKeepTheLimit(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(c.Now)
	p := ratelimittest.Policy(t, ratelimit.Limit{Name: "hour", Requests: 100, Per: time.Hour})
	var admitted, refunds atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				d, _ := m.Decide(t.Context(), "t", p)
				if !d.Allowed {
					continue
				}
				admitted.Add(1)
				if refunds.Add(1) <= 20 {
					_ = m.Refund(t.Context(), "t", d)
				}
				if i%100 == 0 {
					m.Sweep()
				}
			}
		})
	}
	wg.Wait()
	for { // what was refunded at the end
		if d, _ := m.Decide(t.Context(), "t", p); !d.Allowed {
			break
		}
		admitted.Add(1)
	}
	if n := admitted.Load(); n != 120 {
		t.Errorf("%d admitted of 100, after 20 refunds", n)
	}
}
