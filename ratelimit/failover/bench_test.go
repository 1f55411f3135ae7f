package failover_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// An instantStore is a shared store that returns the same answer at once.
type instantStore struct {
	decision ratelimit.Decision
	account  ratelimit.Account
}

func (r instantStore) Exchange(
	context.Context, string, *ratelimit.Policy, ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	return r.decision, r.account, nil
}
func (instantStore) Refund(context.Context, string, ratelimit.Decision) error {
	return nil
}
func (instantStore) Reset(context.Context, string) error { return nil }
func (instantStore) Ping(context.Context) error          { return nil }

// BenchmarkShared measures a decision without the time of the shared store: an admission, and a
// cached denial.
func BenchmarkShared(b *testing.B) {
	p := ratelimittest.Policy(b, limit("second", 3, time.Second), limit("hour", 5000, time.Hour))
	now := time.Now()
	var r instantStore
	for range 3 {
		r.account, _, r.decision = p.ExecuteExchange(r.account, ratelimit.Exchange{}, now)
	}
	denied := r
	denied.account, _, denied.decision = p.ExecuteExchange(denied.account, ratelimit.Exchange{}, now)
	denied.decision.RetryAfter = time.Hour // longer than the benchmark
	for name, r := range map[string]instantStore{"admission": r, "cached": denied} {
		store := newStore(b, failover.Options{Shared: r, Clock: func() time.Time { _ = time.Now(); return now }})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = store.Decide(context.Background(), "t", p)
			}
		})
	}
}

// BenchmarkLocal measures a decision during an outage.
func BenchmarkLocal(b *testing.B) {
	s := newShared()
	s.become(refusing)
	store := newStore(b, failover.Options{Shared: s})
	p := ratelimittest.Policy(b, limit("second", 1_000_000, time.Second), limit("hour", 10_000_000, time.Hour))
	beginOutage(b, store, p)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = store.Decide(context.Background(), "t", p)
	}
}

// BenchmarkMemory measures the memory of a gateway for each token.
func BenchmarkMemory(b *testing.B) {
	p := ratelimittest.Policy(b, limit("second", 3, time.Second), limit("hour", 5000, time.Hour))
	s := newShared()
	before := heap()
	const tokens = 100_000
	var store *failover.Store
	for b.Loop() {
		store = newStore(b, failover.Options{Shared: s})
		for i := range tokens {
			_, _ = store.Decide(context.Background(), fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i), p)
		}
	}
	s.lose()
	b.ReportMetric(float64(heap()-before)/tokens, "B/token")
	runtime.KeepAlive(store)
}

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
