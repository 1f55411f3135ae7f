package redisstore_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// BenchmarkCallers measures decisions of concurrent callers: the processor time of this process and
// of the server for each, the rate and the latency. The proxy that delays requests by 3 ms runs in
// this process, so the processor time is not reported with it.
func BenchmarkCallers(b *testing.B) {
	server := redistest.Start(b)
	distant := startDelay(b, server.Addr(), 3*time.Millisecond)
	for _, callers := range []int{1, 32, 128, 512} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) { benchmarkCallers(b, server, server.Addr(), callers, 0) })
	}
	for _, callers := range []int{1, 32, 128, 512} {
		b.Run(fmt.Sprint("3 ms, ", callers), func(b *testing.B) { benchmarkCallers(b, server, distant, callers, 0) })
	}
	b.Run("3 ms, 8000 a second", func(b *testing.B) { benchmarkCallers(b, server, distant, 1000, 8000) })
}

// benchmarkCallers makes b.N decisions. With a rate, each has a time when it is due, from which its
// latency counts.
func benchmarkCallers(b *testing.B, server *redistest.Server, address string, callers int, rate float64) {
	s := newStore(b, redisstore.Options{Client: newClient(b, redisclient.Options{Addresses: []string{address}, PoolSize: 32})})
	p := specified(b)
	decideConcurrently(b, s, p, 1000) // connects, and loads the script
	var next atomic.Int64
	latencies := make([]time.Duration, b.N)
	gatewayBefore, serverBefore := processTime(b), server.CPUTime()
	b.ResetTimer()
	var wg sync.WaitGroup
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				start := time.Now()
				if rate > 0 {
					start = begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
					<-time.After(time.Until(start))
				}
				if _, err := s.Decide(b.Context(), fmt.Sprintf("0b0b0b0b-0000-7000-8000-%012d", i*7919%1000), p); err != nil {
					b.Error(err)
					return
				}
				latencies[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	perOp := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(b.N) }
	if address == server.Addr() {
		b.ReportMetric(perOp(processTime(b)-gatewayBefore), "gateway-µs/op")
	}
	b.ReportMetric(perOp(server.CPUTime()-serverBefore), "redis-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	slices.Sort(latencies)
	b.ReportMetric(float64(latencies[b.N/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(latencies[b.N*99/100].Microseconds())/1000, "p99-ms")
}

// processTime returns the processor time of this process.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	testkit.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// startDelay runs a proxy that delays requests, and returns its address.
func startDelay(tb testing.TB, to string, by time.Duration) string {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(tb, err)
	var wg sync.WaitGroup
	tb.Cleanup(wg.Wait)
	tb.Cleanup(func() { _ = l.Close() })
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(tb.Context(), "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			wg.Go(func() { delay(in, out, by) })
			wg.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
		}
	})
	return l.Addr().String()
}

// delay copies until the reader ends, and closes the writer.
func delay(from io.Reader, to io.WriteCloser, by time.Duration) {
	type chunk struct {
		due  time.Time
		data []byte
	}
	chunks := make(chan chunk, 1000)
	go func() {
		defer close(chunks)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			chunks <- chunk{time.Now().Add(by), data[:n]}
		}
	}()
	for c := range chunks {
		<-time.After(time.Until(c.due))
		_, _ = to.Write(c.data)
	}
	_ = to.Close()
}
