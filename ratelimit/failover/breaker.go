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

// An outage begins after maxConsecutive consecutive failures, or if at least minCalls calls ended within breakerWindow, and at least half
// of them failed.
const (
	maxConsecutive = 3
	minCalls       = 10
	breakerWindow  = 2 * time.Second
	probeTimeout   = 10 * time.Second // for a shared store whose own timeout fails: that of redisstore is shorter
)

// A call that was not sent because of other calls is repeated if it waited for less than repeatUnsentWithin. So such a request takes at
// most this and the timeout of one call.
const repeatUnsentWithin = 5 * time.Millisecond

// sweepEvery is the interval at which tokens without usage are dropped, and the clocks are compared.
const sweepEvery = 10 * time.Second

func (s *Store) newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "shared store of rate limits",
		Interval:     breakerWindow,
		BucketPeriod: breakerWindow / 10,
		Timeout:      time.Millisecond, // so short that each probe of Run finds it half-open; requests do not call it during an outage
		ReadyToTrip: func(c gobreaker.Counts) bool {
			ended := c.TotalSuccesses + c.TotalFailures // c.Requests includes calls in flight
			return s.failuresInARow.Load() >= maxConsecutive || ended >= minCalls && 2*c.TotalFailures >= ended
		},
		IsExcluded:    func(err error) bool { return err != nil && errors.As(err, new(*uncountedError)) },
		OnStateChange: s.onStateChange,
	})
}

// An uncountedError is the error of a call that the breaker does not count as a failure: an excused stall, which counts in failuresInARow,
// or one of ErrOtherCalls, which counts in the metric only.
type uncountedError struct {
	cause  error
	repeat bool // make the call again: the cached account may be from before a stall
}

func (e *uncountedError) Error() string { return e.cause.Error() }
func (e *uncountedError) Unwrap() error { return e.cause }

// mustRepeat reports whether the request must make a second call, as the first one failed.
func (r *request) mustRepeat(err error) bool {
	uncounted, ok := errors.AsType[*uncountedError](err)
	return ok && uncounted.repeat && !r.repeated
}

// callThroughBreaker makes a call to the shared store. The breaker counts its result.
func (s *Store) callThroughBreaker(start time.Duration, do func() error) error {
	stalledBefore := s.stalls.total.Load()
	_, err := s.breaker.Execute(func() (struct{}, error) {
		if err := do(); err != nil {
			return struct{}{}, s.recordFailure(err, start, stalledBefore)
		}
		if s.failuresInARow.Load() != 0 { // rare: a write for each success would contend between cores
			s.failuresInARow.Store(0)
		}
		return struct{}{}, nil
	})
	return err
}

// callUnlessOutage makes a call if the shared store is in use, and else returns the cause of the outage.
func (s *Store) callUnlessOutage(do func() error) error {
	if st := s.state.Load(); st.outage {
		return st.cause
	}
	return s.callThroughBreaker(s.now(), do)
}

// recordFailure records a failure before the breaker counts it, and returns the error for the breaker.
func (s *Store) recordFailure(err error, start time.Duration, stalledBefore int64) error {
	now, kind := s.now(), kindOf(err)
	stall := s.stalls.totalAt(now) - stalledBefore
	if kind == timeout && 2*stall > int64(now-start) { // this process did not run for more than half of the call
		if excused := s.recordStall(start, now); excused {
			s.metrics.failures.WithLabelValues(stalled).Inc()
			return &uncountedError{cause: err, repeat: true}
		}
	}
	s.metrics.failures.WithLabelValues(kind).Inc()
	if errors.Is(err, ratelimit.ErrOtherCalls) {
		repeat := kind == timeout && errors.Is(err, ratelimit.ErrNotSent) && now-start < repeatUnsentWithin
		return &uncountedError{cause: err, repeat: repeat}
	}
	s.failuresInARow.Add(1)
	s.cause.Store(&err)
	s.recordCountedFailure(kind)
	return err
}

// recordStall records a call that timed out while this process did not run; calls at the same time count as one. It reports whether the
// call is excused: false if it is the third stall or failure without a success between them. Then it is a failure.
func (s *Store) recordStall(start, now time.Duration) (excused bool) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if start >= s.lastStallEnd {
		s.lastStallEnd = now
		s.failuresInARow.Add(1)
	}
	return s.failuresInARow.Load() < maxConsecutive
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
		case <-s.outageBegan:
			probe.Reset(s.untilProbe())
		case <-probe.C:
			if !s.state.Load().outage {
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
		if s.probe(ctx) == nil || s.state.Load().outage {
			return
		}
	}
}

func (s *Store) probe(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout) // a probe that hangs must not stop Run
	defer cancel()
	return s.callThroughBreaker(s.now(), func() error { return s.shared.Ping(bounded) })
}
