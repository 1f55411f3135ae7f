package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
)

func spentIn(m *ratelimit.Memory, token string, per time.Duration) (n int) {
	for _, s := range m.Spent(token) {
		if s.Age < per {
			n += s.N
		}
	}
	return n
}

// Two gateways share a store, and each remembers what it said: what one then knows of a token is what both spent of it.
func TestWhatIsObservedIsWhatTheOtherStoreCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		shared, mirror := ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now}), ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now})
		p := rapid.SampledFrom([]*ratelimit.Policy{
			specified(t),
			ratelimittest.Policy(t, ratelimit.Limit{Name: "second", Requests: 100, Per: time.Second}, ratelimit.Limit{Name: "minute", Requests: 1000, Per: time.Minute}),
			ratelimittest.Policy(t, ratelimit.Limit{Name: "second", Requests: 5, Per: time.Second}, ratelimit.Limit{Name: "minute", Requests: 30, Per: time.Minute}),
		}).Draw(t, "policy")
		var last ratelimit.Decision
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			last, _ = shared.Decide(t.Context(), "t", p)
			if rapid.Bool().Draw(t, "ours") {
				mirror.Observe("t", p, last)
				holdAgainst(t, mirror, p, last)
			}
			if last.Allowed && rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
				_ = shared.Refund(t.Context(), "t", p, last)
			}
			c.Advance(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "gap")))
		}
	})
}

// holdAgainst compares what a mirror has left with the decision that it has observed.
func holdAgainst(t rapid.TB, mirror *ratelimit.Memory, p *ratelimit.Policy, d ratelimit.Decision) {
	t.Helper()
	left, _ := mirror.Peek(context.Background(), "t", p)
	for i, l := range p.Limits() {
		if got, want, off := left.Budgets[i].Remaining, d.Budgets[i].Remaining, 1+l.Requests/20; got < want-off || got > want+off {
			t.Fatalf("limit %s: %d remain in the mirror, %d in the store", l.Name, got, want)
		}
	}
}

func TestAResetElsewhereIsObserved(t *testing.T) {
	c := newClock()
	shared, mirror := ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now}), ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now})
	p := specified(t)
	for range 1000 {
		d, _ := shared.Decide(t.Context(), "t", p)
		mirror.Observe("t", p, d)
		c.Advance(334 * time.Millisecond)
	}
	if n := spentIn(mirror, "t", time.Hour); n != 1000 {
		t.Fatalf("%d of 1000 observed", n)
	}
	_ = shared.Reset(t.Context(), "t")
	d, _ := shared.Decide(t.Context(), "t", p)
	mirror.Observe("t", p, d)
	if n := spentIn(mirror, "t", time.Hour); n != 1 {
		t.Errorf("%d after the reset", n)
	}
}

// A token that others used before is not known here: what they spent is spread over the window, and leaves it bit by bit.
func TestAnUnknownPastIsSpreadOverTheWindow(t *testing.T) {
	c := newClock()
	shared, mirror := ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now}), ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now})
	p := specified(t)
	var d ratelimit.Decision
	for range 4000 {
		d, _ = shared.Decide(t.Context(), "t", p)
		c.Advance(450 * time.Millisecond) // half an hour in all
	}
	mirror.Observe("t", p, d)
	for _, past := range []struct {
		age  time.Duration
		n    int
		give int
	}{{15 * time.Minute, 2000, 300}, {29 * time.Minute, 3866, 300}, {time.Hour, 4000, 0}} {
		if got := spentIn(mirror, "t", past.age); got < past.n-past.give || got > past.n+past.give {
			t.Errorf("%d in %v, want about %d", got, past.age, past.n)
		}
	}
}

func TestASeedIsAllThatIsRemembered(t *testing.T) {
	c := newClock()
	m := ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: c.Now})
	p := specified(t)
	for range 3 {
		_, _ = m.Decide(t.Context(), "t", p)
	}
	m.Seed("t", p, []ratelimit.Spending{{Age: 0, N: 1}, {Age: 500 * time.Millisecond, N: 1}, {Age: 30 * time.Minute, N: 4000}})
	d, _ := m.Decide(t.Context(), "t", p)
	if !d.Allowed || d.Budgets[0].Remaining != 0 || d.Budgets[1].Remaining != 997 {
		t.Fatalf("after the seed: %+v", d)
	}
	c.Advance(31 * time.Minute)
	if d, _ := m.Peek(t.Context(), "t", p); d.Budgets[1].Remaining != 4997 {
		t.Errorf("half an hour later: %+v", d)
	}
}

func BenchmarkMemoryObserve(b *testing.B) {
	p := shapes(b)["generous"]
	shared, mirror := ratelimit.NewMemory(ratelimit.MemoryOptions{}), ratelimit.NewMemory(ratelimit.MemoryOptions{})
	d, _ := shared.Decide(b.Context(), "t", p)
	mirror.Observe("t", p, d)
	b.ReportAllocs()
	for b.Loop() {
		d.Budgets[0].Remaining--
		d.Budgets[1].Remaining--
		if d.Budgets[0].Remaining < 1000 {
			b.StopTimer()
			_ = mirror.Reset(b.Context(), "t")
			d, _ = ratelimit.NewMemory(ratelimit.MemoryOptions{}).Decide(b.Context(), "t", p)
			mirror.Observe("t", p, d)
			b.StartTimer()
		}
		mirror.Observe("t", p, d)
	}
}
