package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

func limit(name string, requests int, per time.Duration) ratelimit.Limit {
	return ratelimit.Limit{Name: name, Requests: requests, Per: per}
}

func specified(tb testing.TB) *ratelimit.Policy {
	tb.Helper()
	return ratelimittest.Policy(tb, limit("second", 3, time.Second), limit("hour", 5000, time.Hour))
}

// What a decision costs, beside a script that does nothing, by the same client.
func BenchmarkDecide(b *testing.B) {
	server := redistest.Start(b)
	client := newClient(b, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	hash := client.ScriptLoad(b.Context(), "").Val()
	b.Run("empty script", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := client.EvalSha(b.Context(), hash, []string{"opsgate:limits:token"}).Err(); err != nil && err != redis.Nil { //nolint:errorlint // as it is
				b.Fatal(err)
			}
		}
	})
	limits := map[string]*ratelimit.Policy{
		"specified, many tokens": specified(b),
		"generous":               ratelimittest.Policy(b, limit("second", 1_000_000, time.Second), limit("hour", 10_000_000, time.Hour)),
		"largest": ratelimittest.Policy(b, limit("second", 100_000, time.Second), limit("minute", 500_000, time.Minute),
			limit("hour", 5_000_000, time.Hour)),
	}
	for name, p := range limits {
		b.Run(name, func(b *testing.B) {
			s := newStore(b, redisstore.Options{Client: client, Prefix: name})
			ids := make([]string, 20_000)
			for i := range ids {
				ids[i] = fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i)
			}
			if name != "specified, many tokens" {
				ids = ids[:1]
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if d, err := s.Decide(b.Context(), ids[i%len(ids)], p); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
		})
	}
	b.Run("refused", func(b *testing.B) {
		s := newStore(b, redisstore.Options{Client: client})
		p := specified(b)
		_, _ = s.Decide(b.Context(), "token", p)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Peek(b.Context(), "token", p)
		}
	})
}

func BenchmarkCachedRefusal(b *testing.B) {
	server := redistest.Start(b)
	s := newStore(b, redisstore.Options{Client: newClient(b, redisstore.ClientOptions{Addresses: []string{server.Addr()}})})
	p := ratelimittest.Policy(b, limit("hour", 1, time.Hour))
	run, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(run) }()
	eventually(b, "refusals are kept", func() bool {
		_, _ = s.Decide(b.Context(), "token", p)
		d, _ := s.Decide(b.Context(), "token", p)
		return d.Cached
	})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.Decide(b.Context(), "token", p)
	}
	b.StopTimer()
	stop()
	<-ended
}

// What a token takes of Redis' memory, its key and Redis' own part included.
func BenchmarkBytesPerToken(b *testing.B) {
	for _, tokens := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			server := redistest.Start(b)
			s := newStore(b, redisstore.Options{Client: newClient(b, redisstore.ClientOptions{Addresses: []string{server.Addr()}})})
			p := specified(b)
			for b.Loop() {
				server.Flush()
				before := usedMemory(b, server)
				spendAtOnce(b, s, p, tokens)
				b.ReportMetric(float64(usedMemory(b, server)-before)/float64(tokens), "B/token")
			}
		})
	}
}
