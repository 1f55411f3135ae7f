package failover

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
)

// The shared store is taken to be away after so many failures in a row, or when half of at least so many calls failed of late.
const (
	failuresInARow = 3
	fewestCalls    = 10
	ofLate         = 2 * time.Second
	ofLateParts    = 10
	longestCall    = 10 * time.Second // the breaker forgets the outcome of a call that takes longer than it looks back
)

// sweepEvery is how often tokens at rest are forgotten.
const sweepEvery = 10 * time.Second

func (s *Store) newBreaker() *gobreaker.CircuitBreaker[ratelimit.Decision] {
	return gobreaker.NewCircuitBreaker[ratelimit.Decision](gobreaker.Settings{
		Name:         "shared store of budgets",
		Interval:     ofLate,
		BucketPeriod: ofLate / ofLateParts,
		Timeout:      time.Millisecond, // Run says when to look: requests do not get as far as the breaker while it is not closed
		ReadyToTrip: func(c gobreaker.Counts) bool {
			ended := c.TotalSuccesses + c.TotalFailures // Requests has those under way, too
			return s.inARow.Load() >= failuresInARow || ended >= fewestCalls && 2*c.TotalFailures >= ended
		},
		IsExcluded:    func(err error) bool { return err != nil && errors.As(err, new(*abandonedError)) },
		OnStateChange: s.follow,
	})
}

// An abandonedError is of a call whose caller's own context ended.
type abandonedError struct{ cause error }

func (e *abandonedError) Error() string { return e.cause.Error() }
func (e *abandonedError) Unwrap() error { return e.cause }

// call has the breaker watch a call of the shared store.
func (s *Store) call(ctx context.Context, do func() (ratelimit.Decision, error)) (ratelimit.Decision, error) {
	return s.breaker.Execute(func() (ratelimit.Decision, error) {
		d, err := do()
		if err != nil {
			return d, s.failed(ctx, err)
		}
		if s.inARow.Load() != 0 {
			s.inARow.Store(0)
		}
		return d, nil
	})
}

// failed notes a failure before the breaker hears of it.
func (s *Store) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &abandonedError{err}
	}
	s.inARow.Add(1)
	class := classOf(err)
	s.metrics.failures[class].Inc()
	s.cause.Store(&err)
	if class == refused {
		s.doubt()
	}
	return err
}

// Run looks for the shared store while it is away, and forgets tokens at rest, until ctx ends; then it returns nil. Without it, a
// shared store that was away once is never used again.
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
			s.Sweep()
		case <-s.left:
			probe.Reset(s.untilProbe())
		case <-probe.C:
			if s.phase.Load().way != away {
				continue // until it is left
			}
			_ = s.probe(ctx)
			probe.Reset(s.untilProbe())
		}
	}
}

// untilProbe draws how long to wait before the next look. Gateways that lost a store together should not come back to it together.
func (s *Store) untilProbe() time.Duration {
	every := s.configured.Load().ProbeEvery
	wait := every - every/5 + rand.N(2*every/5+1)
	s.nextProbe.Store(s.clock().Add(wait).UnixNano())
	return wait
}

// Look looks for the shared store before requests do, as often as it takes to know that it is away.
func (s *Store) Look(ctx context.Context) {
	for range failuresInARow {
		if s.probe(ctx) == nil || s.phase.Load().way == away {
			return
		}
	}
}

// probe looks for the shared store once. What it finds, the breaker tells.
func (s *Store) probe(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, longestCall) // a probe that hangs would be the last
	defer cancel()
	_, err := s.call(ctx, func() (ratelimit.Decision, error) {
		return ratelimit.Decision{}, s.shared.Ping(bounded)
	})
	return err
}

// retryAfter is when it is known whether the shared store is back: seldom before a second has passed.
func (s *Store) retryAfter() time.Duration {
	return max(time.Second, time.Unix(0, s.nextProbe.Load()).Sub(s.clock()))
}
