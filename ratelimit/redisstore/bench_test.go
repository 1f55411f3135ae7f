package redisstore_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisclient"
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

// BenchmarkDecide measures the time of a decision, and the time of the script by INFO commandstats.
func BenchmarkDecide(b *testing.B) {
	server := redistest.Start(b)
	client := newClient(b, redisclient.Options{Addresses: []string{server.Addr()}})
	for name, c := range map[string]struct {
		p    *ratelimit.Policy
		past int // admissions in the hour before, evenly spread
	}{
		"default, new":       {specified(b), 0},
		"default, busy hour": {specified(b), 4900},
		"exact, full":        {ratelimittest.Policy(b, limit("minute", 64, time.Minute), limit("hour", 64, time.Hour)), 60},
		"largest": {ratelimittest.Policy(b, limit("second", 100_000, time.Second), limit("minute", 500_000, time.Minute),
			limit("hour", 5_000_000, time.Hour)), 10_000},
	} {
		b.Run(name, func(b *testing.B) {
			s := newStore(b, redisstore.Options{Client: client, Prefix: name})
			ids := make([]string, 20_000) // enough that few requests are denied
			own := usage(c.p, c.past)
			for i := range ids {
				ids[i] = fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i)
				if _, _, err := s.Exchange(b.Context(), ids[i], c.p, ratelimit.Exchange{Op: ratelimit.OpUpload, Upload: own}); err != nil {
					b.Fatal(err)
				}
			}
			testkit.Must(b, server.Client().ConfigResetStat(b.Context()).Err())
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := s.Decide(b.Context(), ids[i%len(ids)], c.p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(scriptTime(b, server), "redis-µs/op")
			size := server.Client().MemoryUsage(b.Context(), name+"account:3:"+ids[0]).Val()
			b.ReportMetric(float64(size), "B/token")
		})
	}
}

// usage returns an account with admissions in the hour before now, evenly spread.
func usage(p *ratelimit.Policy, past int) (own ratelimit.Account) {
	now := time.Now()
	for i := range past {
		own, _ = p.DecideShare(1, nil, own, nil, now.Add(-time.Hour+time.Duration(i)*time.Hour/time.Duration(past)), false)
	}
	return own
}

// scriptTime returns the mean time of a call of a script in the server, in µs.
func scriptTime(tb testing.TB, server *redistest.Server) float64 {
	tb.Helper()
	stats, err := server.Client().Info(tb.Context(), "commandstats").Result()
	testkit.Must(tb, err)
	for line := range strings.Lines(stats) {
		if calls, found := strings.CutPrefix(line, "cmdstat_evalsha:"); found {
			_, after, _ := strings.Cut(calls, "usec_per_call=")
			value, _, _ := strings.Cut(after, ",")
			micros, err := strconv.ParseFloat(value, 64)
			testkit.Must(tb, err)
			return micros
		}
	}
	tb.Fatal("no script was called")
	return 0
}

// BenchmarkBytesPerToken measures the memory of a token in Redis, with its key and Redis' overhead.
func BenchmarkBytesPerToken(b *testing.B) {
	for _, tokens := range []int{1, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			server := redistest.Start(b)
			s := newStore(b, redisstore.Options{Client: newClient(b, redisclient.Options{Addresses: []string{server.Addr()}})})
			p := specified(b)
			for b.Loop() {
				server.Flush()
				before := usedMemory(b, server)
				decideConcurrently(b, s, p, tokens)
				b.ReportMetric(float64(usedMemory(b, server)-before)/float64(tokens), "B/token")
			}
		})
	}
}

// BenchmarkServerTime measures the processor time of the server for a decision, including reading
// the call and writing the answer, with 32 concurrent callers.
func BenchmarkServerTime(b *testing.B) {
	server := redistest.Start(b)
	s := newStore(b, redisstore.Options{Client: newClient(b, redisclient.Options{Addresses: []string{server.Addr()}, PoolSize: 32})})
	p := specified(b)
	for _, tokens := range []int{1_000, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(tokens, " tokens"), func(b *testing.B) {
			var next atomic.Uint64
			before := server.CPUTime()
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
			b.ReportMetric(float64((server.CPUTime()-before).Nanoseconds())/float64(b.N), "redis-ns/op")
		})
	}
}
