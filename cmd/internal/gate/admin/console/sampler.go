package console

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sampleEvery is the interval of the traffic history, which therefore covers 15 minutes.
const sampleEvery = 10 * time.Second

// A Sampler keeps the history of traffic and of calls to services, which it samples from the metrics of the process.
type Sampler struct {
	metrics  prometheus.Gatherer
	clock    func() time.Time
	history  *history
	services *history
}

// NewSampler returns a Sampler without a history. clock is the wall clock; nil for time.Now.
func NewSampler(metrics prometheus.Gatherer, clock func() time.Time) *Sampler {
	if clock == nil {
		clock = time.Now
	}
	return &Sampler{metrics: metrics, clock: clock, history: newHistory(sampleEvery), services: newHistory(sampleEvery)}
}

// Run samples the metrics until ctx ends, then returns nil.
func (s *Sampler) Run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		r, now := s.read(), s.clock()
		s.history.add(r.measured, now)
		s.services.add(r.services, now)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// read gathers the metrics. On an error of one collector it uses the metrics of the others.
func (s *Sampler) read() readings {
	families, _ := s.metrics.Gather()
	return newReadings(families)
}

// Rates are the requests per second in the last point of the traffic history; 0 before there is one.
type Rates struct{ All, Failed, Limited float64 }

// Rates returns the rates of all routes. It reads no metrics.
func (s *Sampler) Rates() Rates { return s.history.rates() }
