package mail_test

import (
	"sync"
	"testing"
)

// BenchmarkSend is the time of one message over four connections to a server on the loopback interface: -benchtime 10000x.
func BenchmarkSend(b *testing.B) {
	const workers = 4
	s := start(b)
	sender := s.sender(b)
	jobs := make(chan struct{}, workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range jobs {
				if err := sender.Send(b.Context(), message()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		jobs <- struct{}{}
	}
	close(jobs)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	if n := s.sessionCount(); n > workers {
		b.Errorf("%d sessions", n)
	}
}
