package limiters

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

const tokens = 1000

// BenchmarkDecision measures a decision on two limits that admit every request, for many tokens:
// the CPU time in this process and in Redis, and the 99th percentile of its duration.
func BenchmarkDecision(b *testing.B) {
	for _, l := range limiters {
		for _, callers := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/callers=%d", l.name, callers), func(b *testing.B) {
				server := redistest.Start(b)
				allow := l.make(b, server, []limit{{1000, time.Second}, {1_000_000, time.Hour}})
				took := make([]time.Duration, b.N)
				before, redisBefore := cpuTime(), server.CPUTime()
				b.ResetTimer()
				call(b, callers, allow, took)
				b.StopTimer()
				b.ReportMetric(micros(cpuTime()-before)/float64(b.N), "client-µs/op")
				b.ReportMetric(micros(server.CPUTime()-redisBefore)/float64(b.N), "redis-µs/op")
				slices.Sort(took)
				b.ReportMetric(micros(took[len(took)*99/100]), "p99-µs")
				b.ReportMetric(0, "ns/op") // the time of a caller, not that of a decision
			})
		}
	}
}

// call makes b.N decisions, and stores how long each took.
func call(b *testing.B, callers int, allow allow, took []time.Duration) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(took)); i = next.Add(1) - 1 {
				start := time.Now()
				if ok, err := allow(b.Context(), strconv.FormatInt(i%tokens, 10)); err != nil || !ok {
					b.Errorf("decision %d: admitted %t, %v", i, ok, err)
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
}

// BenchmarkWorstSecond makes one request of a token with a limit of ten a second, and floods it
// from shortly before that leaves its window on. It reports the largest number of admissions in a
// second: more than ten is a broken limit.
func BenchmarkWorstSecond(b *testing.B) {
	for _, l := range limiters {
		b.Run(l.name, func(b *testing.B) {
			server := redistest.Start(b)
			allow := l.make(b, server, []limit{{10, time.Second}})
			worst := 0
			for b.Loop() {
				worst = max(worst, mostInASecond(flood(b, allow)))
			}
			b.ReportMetric(float64(worst), "admitted/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// flood returns when requests were sent that were admitted.
func flood(b *testing.B, allow allow) (admitted []time.Time) {
	request := func() {
		sent := time.Now()
		ok, err := allow(b.Context(), "flooded")
		testkit.Must(b, err)
		if ok {
			admitted = append(admitted, sent)
		}
	}
	request()
	<-time.After(900 * time.Millisecond)
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		request()
	}
	return admitted
}

// mostInASecond returns the largest number of times within a second, less the time that a call may
// take.
func mostInASecond(times []time.Time) (most int) {
	for i, first := range times {
		n := 0
		for _, t := range times[i:] {
			if t.Sub(first) < time.Second-50*time.Millisecond {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// BenchmarkBytes reports the memory in Redis of a token that has used the default limits for an
// hour: 5000 admissions.
func BenchmarkBytes(b *testing.B) {
	for _, l := range limiters {
		b.Run(l.name, func(b *testing.B) {
			for b.Loop() {
				server := redistest.Start(b)
				allow := l.make(b, server, []limit{{100_000, time.Second}, {5000, time.Hour}})
				for range 5000 {
					if _, err := allow(b.Context(), "t"); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(bytesOfKeys(b, server)), "B/token")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

func bytesOfKeys(b *testing.B, server *redistest.Server) (n int64) {
	client := server.Client()
	for _, key := range client.Keys(b.Context(), "*").Val() {
		n += client.MemoryUsage(b.Context(), key).Val()
	}
	return n
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
