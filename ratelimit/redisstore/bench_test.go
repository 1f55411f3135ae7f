package redisstore_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
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
			if err := client.EvalSha(b.Context(), hash, []string{"opsgate:account:token"}).Err(); err != nil && err != redis.Nil { //nolint:errorlint // as it is
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

// What a decision takes of the server's one thread, its part in reading and answering the call included: what bounds how many one
// server makes. 32 callers are at it, as many as a gateway has connections by default.
func BenchmarkServerTime(b *testing.B) {
	server := redistest.Start(b)
	s := newStore(b, redisstore.Options{Client: newClient(b, redisstore.ClientOptions{Addresses: []string{server.Addr()}, PoolSize: 32})})
	p := specified(b)
	for _, tokens := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprint(tokens, " tokens"), func(b *testing.B) {
			var next atomic.Uint64
			before := cpuTime(b, server)
			b.SetParallelism(max(1, 32/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", next.Add(7919)%uint64(tokens))
					if _, err := s.Decide(b.Context(), id, p); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((cpuTime(b, server)-before).Nanoseconds())/float64(b.N), "redis-ns/op")
		})
	}
}

// cpuTime returns what the server has used of a processor.
func cpuTime(b *testing.B, server *redistest.Server) time.Duration {
	b.Helper()
	info, err := server.Client().Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var total float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second))
}
