package delivery_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/test/testkit"
)

// BenchmarkDispatcher delivers one notification to all subscribers of a page, while another goroutine writes as the API does.
//
//	go test -run '^$' -bench Dispatcher -benchtime 3x ./cmd/internal/backend/delivery
func BenchmarkDispatcher(b *testing.B) {
	for _, subscribers := range []int{1000, 10_000} {
		for name, hosts := range map[string]int{"OneReceiver": 1, "ManyReceivers": subscribers} {
			b.Run(fmt.Sprintf("%s/%d", name, subscribers), func(b *testing.B) { benchmark(b, subscribers, hosts, nil) })
		}
	}
	b.Run("HalfHangs/10000", func(b *testing.B) {
		benchmark(b, 10_000, 100, func(ctx context.Context, m delivery.Message) error {
			if m.Subscriber.ID[0] != '0' {
				return nil
			}
			<-ctx.Done() // of one receiver
			return ctx.Err()
		})
	})
}

func benchmark(b *testing.B, subscribers, hosts int, send func(context.Context, delivery.Message) error) {
	f := newFixture(b, b.TempDir())
	defer f.close()
	want := int64(subscribers)
	f.write(func(ctx context.Context, q *query.Queries) error {
		for i := range subscribers {
			id, host := fmt.Sprintf("1%06d", i), fmt.Sprintf("host%d.example", i%hosts)
			if send != nil && i%2 == 0 {
				id, host = fmt.Sprintf("0%06d", i), "hangs.example"
				want--
			}
			testkit.Must(b, insertSubscriber(ctx, q, id, delivery.Webhook, "https://"+host+"/"+id))
		}
		return nil
	})
	var accepted, peak atomic.Int64
	done := make(chan struct{}, 1)
	sender := &counter{send: send, accepted: func() {
		n := accepted.Add(1)
		if n%200 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), int64(m.HeapAlloc)))
		}
		if n%want == 0 {
			done <- struct{}{}
		}
	}}
	wake := make(chan struct{})
	r := f.start(delivery.Options{Senders: webhooks(sender), Wake: func() <-chan struct{} { return wake }})
	stop, latencies := f.writeAsTheAPI()
	b.ResetTimer()
	for range b.N {
		f.notify(false)
		wake <- struct{}{}
		<-done
	}
	b.StopTimer()
	close(stop)
	took := <-latencies
	slices.Sort(took)
	b.ReportMetric(float64(b.N)*float64(want)/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric(float64(peak.Load())/1e6, "MB-heap")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-write-p50")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms-write-p99")
	r.stop()
	r.dispatcher.Kill()
	<-r.done
}

// A counter is a sender that keeps no messages.
type counter struct {
	send     func(context.Context, delivery.Message) error
	accepted func()
}

func (c *counter) Send(ctx context.Context, m delivery.Message) error {
	if c.send != nil {
		if err := c.send(ctx, m); err != nil {
			return err
		}
	}
	c.accepted()
	return nil
}

// writeAsTheAPI writes small transactions, one every 10 ms, until stop is closed, and then returns their durations.
func (f *fixture) writeAsTheAPI() (stop chan struct{}, latencies chan []time.Duration) {
	stop, latencies = make(chan struct{}), make(chan []time.Duration, 1)
	go func() {
		var took []time.Duration
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				latencies <- took
				return
			case <-ticker.C:
			}
			begin := time.Now()
			f.write(func(ctx context.Context, q *query.Queries) error {
				return q.InsertTeam(ctx, query.InsertTeamParams{ID: fmt.Sprint(n), Name: fmt.Sprint(n), Plan: "ai"})
			})
			took = append(took, time.Since(begin))
		}
	}()
	return stop, latencies
}
