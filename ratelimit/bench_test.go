package ratelimit_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
)

const manyTokens = 100_000

func tokenIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i)
	}
	return ids
}

// benchmarkPolicies returns the default policy, one that never denies here, and the largest.
func benchmarkPolicies(tb testing.TB) map[string]*ratelimit.Policy {
	limit := func(name string, requests int, per time.Duration) ratelimit.Limit {
		return ratelimit.Limit{Name: name, Requests: requests, Per: per}
	}
	return map[string]*ratelimit.Policy{
		"specified": specified(tb),
		"generous":  ratelimittest.Policy(tb, limit("second", 1_000_000, time.Second), limit("hour", 10_000_000, time.Hour)),
		"largest":   ratelimittest.Policy(tb, limit("second", 10, time.Second), limit("minute", 5_000, time.Minute), limit("hour", 50_000, time.Hour), limit("day", 500_000, 24*time.Hour)),
	}
}

// BenchmarkMemoryDecideAdmission measures admissions of one token.
func BenchmarkMemoryDecideAdmission(b *testing.B) {
	for name, step := range map[string]time.Duration{"specified": 750 * time.Millisecond, "generous": 100 * time.Microsecond} {
		b.Run(name, func(b *testing.B) {
			now := time.Now()
			m := ratelimit.NewMemory(func() time.Time { return now })
			p := benchmarkPolicies(b)[name]
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(step)
				if d, _ := m.Decide(context.Background(), "token", p); !d.Allowed {
					b.Fatalf("denied: %+v", d)
				}
			}
		})
	}
}

// BenchmarkMemoryDecideDenial measures denials of one token.
func BenchmarkMemoryDecideDenial(b *testing.B) {
	m := ratelimit.NewMemory(time.Now)
	p := specified(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = m.Decide(context.Background(), "token", p)
	}
}

// BenchmarkMemoryDecideParallel measures decisions for a growing number of tokens, by eight
// goroutines. Of many tokens, most are not in a cache of the processor.
func BenchmarkMemoryDecideParallel(b *testing.B) {
	p := specified(b)
	for _, tokens := range []int{1, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			ids := tokenIDs(tokens)
			m := ratelimit.NewMemory(time.Now)
			for _, id := range ids {
				_, _ = m.Decide(b.Context(), id, p)
			}
			b.SetParallelism(4)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := uint32(0); pb.Next(); i += 7919 {
					_, _ = m.Decide(context.Background(), ids[i%uint32(tokens)], p)
				}
			})
		})
	}
}

// BenchmarkMemoryBytesPerToken measures the memory of a token, including its entry in the map,
// without its id.
func BenchmarkMemoryBytesPerToken(b *testing.B) {
	ids := tokenIDs(manyTokens)
	for name, p := range benchmarkPolicies(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(bytesPerToken(b, ids, p), "B/token")
			}
		})
	}
}

// An account of the default policy takes at most 512 bytes with its entry in the map, and any other
// at most 2 KiB.
func TestMemoryOfATokenIsBounded(t *testing.T) {
	ids := tokenIDs(manyTokens)
	for name, p := range benchmarkPolicies(t) {
		maxBytes := 2048.0
		if name == "specified" {
			maxBytes = 512
		}
		perToken := bytesPerToken(t, ids, p)
		t.Logf("%s: %.0f bytes a token", name, perToken)
		if perToken > maxBytes {
			t.Errorf("%s: %.0f bytes a token", name, perToken)
		}
	}
}

func bytesPerToken(tb testing.TB, ids []string, p *ratelimit.Policy) float64 {
	m := ratelimit.NewMemory(time.Now)
	before := heap()
	for _, id := range ids {
		for range 4 {
			_, _ = m.Decide(tb.Context(), id, p)
		}
	}
	after := heap()
	runtime.KeepAlive(m)
	return (float64(after) - float64(before)) / float64(len(ids))
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
