package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestMemory(t *testing.T) {
	ratelimittest.Run(t, func(rapid.TB) ratelimittest.Subject {
		c := newClock()
		return ratelimittest.Subject{Store: ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now}), Now: c.Now, Advance: c.Advance}
	})
}

func specified(tb testing.TB) *ratelimit.Policy {
	return ratelimittest.Policy(tb, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour})
}

func TestBadPolicies(t *testing.T) {
	good := ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}
	for name, c := range map[string]struct {
		limits []ratelimit.Limit
		want   string
	}{
		"none":        {nil, "1 to 4 limits"},
		"too many":    {make([]ratelimit.Limit, 5), "1 to 4 limits"},
		"no name":     {[]ratelimit.Limit{{Requests: 1, Per: time.Second}}, "no name"},
		"no requests": {[]ratelimit.Limit{{Name: "a", Per: time.Second}}, "requests must be"},
		"too short":   {[]ratelimit.Limit{{Name: "a", Requests: 1, Per: time.Microsecond}}, "per must be"},
		"too long":    {[]ratelimit.Limit{{Name: "a", Requests: 1, Per: 32 * 24 * time.Hour}}, "per must be"},
		"same name":   {[]ratelimit.Limit{good, {Name: "second", Requests: 3, Per: time.Hour}}, "name of another"},
		"same length": {[]ratelimit.Limit{good, {Name: "other", Requests: 9, Per: time.Second}}, "over 1s"},
	} {
		if _, err := ratelimit.NewPolicy(c.limits); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	for wait, want := range map[time.Duration]int{0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, time.Hour: 3600} {
		if got := (ratelimit.Decision{RetryAfter: wait}).RetryAfterSeconds(); got != want {
			t.Errorf("%v: %d, want %d", wait, got, want)
		}
	}
}

// Exact limits are exact to the nanosecond, over windows of up to a second.
func TestTheInstantThatAWindowOpens(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now})
	p := ratelimittest.Policy(t, ratelimit.Limit{Name: "second", Requests: 1, Per: time.Second})
	if d, _ := m.Decide(t.Context(), "t", p); !d.Allowed {
		t.Fatal("refused at once")
	}
	c.Advance(time.Second - 1)
	if d, _ := m.Decide(t.Context(), "t", p); d.Allowed || d.RetryAfter != 1 {
		t.Fatalf("a nanosecond early: %+v", d)
	}
	c.Advance(1)
	if d, _ := m.Decide(t.Context(), "t", p); !d.Allowed {
		t.Fatalf("on time: %+v", d)
	}
}

// A token that keeps going for longer than a stamp can say.
func TestATokenThatNeverRests(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now})
	p := ratelimittest.Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second})
	for i := range 1000 {
		want := i%4 < 3
		if d, _ := m.Decide(t.Context(), "t", p); d.Allowed != want {
			t.Fatalf("request %d: %+v", i, d)
		}
		if i%4 == 3 {
			c.Advance(time.Second)
		}
	}
}

func TestTokensAtRestTakeNothing(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now})
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

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("over"))
	if err := ratelimit.NewMemory(ratelimit.MemoryOptions{}).Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestManyAtOnceSpendOneBudget(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now})
	p := ratelimittest.Policy(t, ratelimit.Limit{Name: "hour", Requests: 500, Per: time.Hour}, ratelimit.Limit{Name: "minute", Requests: 50, Per: time.Minute})
	var mu sync.Mutex
	var wg sync.WaitGroup
	admitted := map[string]int{}
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				id := fmt.Sprint("token-", i%7)
				d, _ := m.Decide(t.Context(), id, p)
				if d.Allowed {
					mu.Lock()
					admitted[id]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for id, n := range admitted {
		if n != 50 {
			t.Errorf("%s: %d admitted", id, n)
		}
	}
}

// The promise is 512 bytes of state, whatever the limits.
func TestStateIsSmall(t *testing.T) {
	for name, p := range map[string]*ratelimit.Policy{
		"as specified": specified(t),
		"large":        ratelimittest.Policy(t, ratelimit.Limit{Name: "second", Requests: 60, Per: time.Second}, ratelimit.Limit{Name: "day", Requests: 1_000_000_000, Per: 24 * time.Hour}),
	} {
		const tokens = 20_000
		ids := make([]string, tokens)
		for i := range ids {
			ids[i] = fmt.Sprint("token-", i)
		}
		m := ratelimit.NewMemory(ratelimit.MemoryOptions{})
		before := heap()
		for _, id := range ids {
			for range 4 {
				_, _ = m.Decide(t.Context(), id, p)
			}
		}
		perToken := float64(heap()-before) / tokens
		runtime.KeepAlive(m)
		t.Logf("%s: %.0f bytes a token, its entry in the map included", name, perToken)
		if perToken > 700 {
			t.Errorf("%s: %.0f bytes a token", name, perToken)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func BenchmarkMemoryDecide(b *testing.B) {
	const tokens = 100_000
	ids := make([]string, tokens)
	for i := range ids {
		ids[i] = fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i)
	}
	for name, p := range map[string]*ratelimit.Policy{
		"admitted":  ratelimittest.Policy(b, ratelimit.Limit{Name: "second", Requests: 1_000_000_000, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 1_000_000_000, Per: time.Hour}),
		"specified": specified(b),
	} {
		b.Run(name, func(b *testing.B) {
			m := ratelimit.NewMemory(ratelimit.MemoryOptions{})
			for _, id := range ids {
				_, _ = m.Decide(b.Context(), id, p)
			}
			b.SetParallelism(4) // eight goroutines on two cores
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := uint32(0); pb.Next(); i += 7919 {
					_, _ = m.Decide(context.Background(), ids[i%tokens], p)
				}
			})
		})
	}
}
