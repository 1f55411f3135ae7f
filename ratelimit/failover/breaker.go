package failover

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sony/gobreaker/v2"
)

// An outage begins after maxConsecutive consecutive failures, or when at least half of the calls within breakerWindow failed, and there
// were at least minCalls.
const (
	maxConsecutive = 3
	minCalls       = 10
	breakerWindow  = 2 * time.Second
	breakerBuckets = 10
	probeTimeout   = 10 * time.Second // so long that the breaker ignores a probe that hangs: it ignores results after breakerWindow
)

// sweepEvery is the interval at which tokens without usage are dropped.
const sweepEvery = 10 * time.Second

func (s *Store) newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "shared store of rate limits",
		Interval:     breakerWindow,
		BucketPeriod: breakerWindow / breakerBuckets,
		Timeout:      time.Millisecond, // Run probes; no request calls the breaker while it is open
		ReadyToTrip: func(c gobreaker.Counts) bool {
			ended := c.TotalSuccesses + c.TotalFailures // c.Requests includes calls in flight
			return s.consecutive.Load() >= maxConsecutive || ended >= minCalls && 2*c.TotalFailures >= ended
		},
		IsExcluded:    func(err error) bool { return err != nil && errors.As(err, new(*abandonedError)) },
		OnStateChange: s.onStateChange,
	})
}

// An abandonedError is the error of a call whose caller's context has ended.
type abandonedError struct{ cause error }

func (e *abandonedError) Error() string { return e.cause.Error() }
func (e *abandonedError) Unwrap() error { return e.cause }

// call makes a call to the shared store. The breaker counts its result.
func (s *Store) call(ctx context.Context, do func() error) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		if err := do(); err != nil {
			return struct{}{}, s.recordFailure(ctx, err)
		}
		if s.consecutive.Load() != 0 {
			s.consecutive.Store(0)
		}
		return struct{}{}, nil
	})
	return err
}

// callUnlessOutage makes a call if the shared store is in use, and else returns the cause of the outage.
func (s *Store) callUnlessOutage(ctx context.Context, do func() error) error {
	if ph := s.phase.Load(); ph.outage {
		return ph.cause
	}
	return s.call(ctx, do)
}

// recordFailure records a failure before the breaker counts it, and returns the error for the breaker.
func (s *Store) recordFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &abandonedError{err}
	}
	s.consecutive.Add(1)
	kind := kindOf(err)
	s.metrics.failures[kind].Inc()
	s.cause.Store(&err)
	s.updatePhaseAfter(kind)
	return err
}

// Run probes the shared store during outages, and drops tokens without usage, until ctx ends; then it returns nil. Without it, an outage
// does not end.
func (s *Store) Run(ctx context.Context) error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	probe := time.NewTimer(s.untilProbe())
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			s.sweep()
		case <-s.outages:
			probe.Reset(s.untilProbe())
		case <-probe.C:
			if !s.phase.Load().outage {
				continue
			}
			_ = s.probe(ctx)
			probe.Reset(s.untilProbe())
		}
	}
}

// untilProbe returns the time until the next probe. It is random, so that gateways do not probe at the same time.
func (s *Store) untilProbe() time.Duration {
	every := s.configured.Load().ProbeEvery
	wait := every - every/5 + rand.N(2*every/5+1)
	s.nextProbe.Store(s.clock().Add(wait).UnixNano())
	return wait
}

// ProbeFirst probes the shared store before the first request, until a probe succeeds or an outage begins.
func (s *Store) ProbeFirst(ctx context.Context) {
	for range maxConsecutive {
		if s.probe(ctx) == nil || s.phase.Load().outage {
			return
		}
	}
}

func (s *Store) probe(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout) // a probe that hangs must not stop Run
	defer cancel()
	return s.call(ctx, func() error { return s.shared.Ping(bounded) })
}

// retryAfter returns the time until the next probe, at least a second.
func (s *Store) retryAfter() time.Duration {
	return max(time.Second, time.Unix(0, s.nextProbe.Load()).Sub(s.clock()))
}
