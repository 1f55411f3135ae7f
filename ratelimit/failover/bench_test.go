package failover_test

import (
	"context"
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// ready is a shared store that answers at once.
type ready struct{ decision ratelimit.Decision }

func (r ready) Decide(context.Context, string, *ratelimit.Policy) (ratelimit.Decision, error) {
	return r.decision, nil
}

func (r ready) Peek(context.Context, string, *ratelimit.Policy) (ratelimit.Decision, error) {
	return r.decision, nil
}
func (ready) Refund(context.Context, string, *ratelimit.Policy, ratelimit.Decision) error { return nil }
func (ready) Reset(context.Context, string) error                                         { return nil }
func (ready) Ping(context.Context) error                                                  { return nil }

func (ready) Settle(context.Context, string, *ratelimit.Policy, []ratelimit.Spending, []ratelimit.Spending) error {
	return nil
}

// What a decision of the shared store costs in addition, while all is well.
func BenchmarkShared(b *testing.B) {
	p := ratelimittest.Policy(b, limit("second", 1_000_000, time.Second), limit("hour", 10_000_000, time.Hour))
	d, err := ratelimit.NewMemory(ratelimit.MemoryOptions{}).Decide(b.Context(), "t", p)
	if err != nil {
		b.Fatal(err)
	}
	for name, cached := range map[string]bool{"admission": false, "cached": true} {
		d.Cached = cached
		store := newStore(b, failover.Options{Shared: ready{d}})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = store.Decide(context.Background(), "t", p)
			}
		})
	}
}

// A decision while the shared store is away.
func BenchmarkAway(b *testing.B) {
	s := newShared(time.Now)
	s.become(gone)
	store := newStore(b, failover.Options{Shared: s})
	p := ratelimittest.Policy(b, limit("second", 1_000_000, time.Second), limit("hour", 10_000_000, time.Hour))
	leave(b, store, p)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = store.Decide(context.Background(), "t", p)
	}
}
