package failover

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
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

// maxUnsent is the time until which a call that was not sent is repeated. It adds to the timeout of the repetition.
const maxUnsent = 5 * time.Millisecond

// sweepEvery is the interval at which tokens without usage are dropped, and the clocks are compared.
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
		IsExcluded:    func(err error) bool { return err != nil && errors.As(err, new(*excludedError)) },
		OnStateChange: s.onStateChange,
	})
}

// An excludedError is the error of a call that the breaker does not count: this process did not run, or another call reports the failure.
// repeat reports whether the call is repeated, as the account of its token may be as old as a stall.
type excludedError struct {
	cause  error
	repeat bool
}

func (e *excludedError) Error() string { return e.cause.Error() }
func (e *excludedError) Unwrap() error { return e.cause }

func isRepeated(err error) bool {
	excluded, ok := errors.AsType[*excludedError](err)
	return ok && excluded.repeat
}

// callThroughBreaker makes a call to the shared store. The breaker counts its result.
func (s *Store) callThroughBreaker(start time.Duration, do func() error) error {
	stalledBefore := s.stalls.total.Load()
	_, err := s.breaker.Execute(func() (struct{}, error) {
		if err := do(); err != nil {
			return struct{}{}, s.recordFailure(err, start, stalledBefore)
		}
		if s.consecutive.Load() != 0 {
			s.consecutive.Store(0)
		}
		return struct{}{}, nil
	})
	return err
}

// callUnlessOutage makes a call if the shared store is in use, and else returns the cause of the outage.
func (s *Store) callUnlessOutage(do func() error) error {
	if ph := s.phase.Load(); ph.outage {
		return ph.cause
	}
	return s.callThroughBreaker(s.now(), do)
}

// recordFailure records a failure before the breaker counts it, and returns the error for the breaker.
func (s *Store) recordFailure(err error, start time.Duration, stalledBefore int64) error {
	now, kind := s.now(), kindOf(err)
	if stall := s.stalls.until(now) - stalledBefore; kind == timeout && 2*stall > int64(now-start) && s.recordStall(start, now) {
		s.metrics.failures[stalled].Inc()
		return &excludedError{cause: err, repeat: true}
	}
	if errors.As(err, new(*ratelimit.BatchError)) {
		s.metrics.failures[kind].Inc()
		return &excludedError{cause: err, repeat: kind == timeout && errors.Is(err, ratelimit.ErrNotSent) && now-start < maxUnsent}
	}
	s.consecutive.Add(1)
	s.metrics.failures[kind].Inc()
	s.cause.Store(&err)
	s.updatePhaseAfter(kind)
	return err
}

// recordStall records a call that timed out while this process did not run; calls at the same time count as one. It reports whether the
// call is no failure of the shared store: after the third in a row, without an answer between them, it is one.
func (s *Store) recordStall(start, now time.Duration) (excluded bool) {
	s.phaseMu.Lock()
	defer s.phaseMu.Unlock()
	if start >= s.lastStall {
		s.lastStall = now
		s.consecutive.Add(1)
	}
	return s.consecutive.Load() < maxConsecutive
}

// Run probes the shared store during outages, drops tokens without usage, and watches the clocks, until ctx ends; then it returns nil.
// Without it, an outage does not end.
func (s *Store) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { s.stalls.run(ctx) })
	defer watching.Wait()
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
			s.reportClock()
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
	return s.callThroughBreaker(s.now(), func() error { return s.shared.Ping(bounded) })
}

// retryAfter returns the time until the next probe, at least a second.
func (s *Store) retryAfter() time.Duration {
	return max(time.Second, time.Unix(0, s.nextProbe.Load()).Sub(s.clock()))
}
