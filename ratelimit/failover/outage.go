package failover

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"opsgate/internal/pulse"
	"opsgate/ratelimit"
)

const (
	probeTimeout = 10 * time.Second // a backstop: the shared store has a shorter timeout of its own
	flapWithin   = 10 * time.Second // after an outage, the next one is shown as a part of it

	// While there are admissions to upload, a gateway uploads those of up to uploadsAtOnce tokens
	// each uploadEvery. In every tenth of these intervals it drops entries without usage, and
	// compares the clocks.
	uploadEvery   = time.Second
	uploadsAtOnce = 200
	sweepEach     = 10
)

// An outage is a time in state local.
type outage struct {
	began time.Time
	cause error
}

// A State is the state of a store as the admin page shows it.
type State struct {
	Mode  ratelimit.Mode // ModeShared, or that of the settings in state local
	Since time.Time      // start of the state; outages less than ten seconds apart count as one
	Cause error          // of the outage; nil in state shared
}

// State returns the state of the store.
func (s *Store) State() State {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if o := s.outage.Load(); o != nil {
		return State{s.configured.Load().Mode, s.outageSince, o.cause}
	}
	return State{ratelimit.ModeShared, s.sharedSince, nil}
}

// An outage begins after maxInARow failures in a row, or when, in a period of ratePeriod, at least
// minCalls calls have ended and half of them failed.
const (
	maxInARow  = 3
	minCalls   = 10
	ratePeriod = 2 * time.Second
)

// A failureRate counts failures in a row, and calls and failures in a period. The first call after
// a period begins the next one.
type failureRate struct {
	mu            sync.Mutex
	inARow        int
	began         time.Duration // of the period
	calls, failed int
}

// record counts a call that ended, and reports whether an outage begins.
func (f *failureRate) record(now time.Duration, failed bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now-f.began >= ratePeriod {
		f.began, f.calls, f.failed = now, 0, 0
	}
	f.calls++
	if !failed {
		f.inARow = 0
		return false
	}
	f.inARow++
	f.failed++
	return f.inARow >= maxInARow || f.calls >= minCalls && 2*f.failed >= f.calls
}

// clear forgets the calls of an outage that has ended.
func (f *failureRate) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inARow, f.calls, f.failed = 0, 0, 0
}

// call makes a call of the shared store and counts it. If it fails too often, an outage begins.
func (s *Store) call(do func() error) error {
	err := do()
	if err != nil {
		s.metrics.failures.WithLabelValues(causeOf(err)).Inc()
	}
	if s.failures.record(s.now(), err != nil) {
		s.beginOutage(err)
	}
	return err
}

func (s *Store) beginOutage(cause error) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if s.outage.Load() != nil {
		return // calls in flight may still fail
	}
	now := s.clock()
	if s.outageSince.IsZero() || now.Sub(s.sharedSince) >= flapWithin {
		s.outageSince = now
	}
	s.outage.Store(&outage{now, cause})
	s.metrics.outages.Inc()
	s.logger.Warn("shared rate limit store not in use",
		slog.String("mode", string(s.configured.Load().Mode)), slog.Any("cause", cause))
	select {
	case s.outageBegan <- struct{}{}:
	default: // Run has not received the last one
	}
}

func (s *Store) endOutage() {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	o := s.outage.Load()
	if o == nil {
		return
	}
	s.sharedSince = s.clock()
	s.failures.clear()
	s.outage.Store(nil)
	s.logger.Info("shared rate limit store in use again",
		slog.String("lasted", s.sharedSince.Sub(o.began).Round(time.Millisecond).String()), slog.Any("cause", o.cause))
}

// Run probes the shared store during outages, uploads local admissions after them, drops entries
// without usage, and compares the clocks, until ctx ends; then it returns nil. Without it, an
// outage does not end.
func (s *Store) Run(ctx context.Context) error {
	tick := pulse.New(uploadEvery)
	defer tick.Stop()
	probe := time.NewTimer(s.scheduleProbe()) // the first finds no outage
	defer probe.Stop()
	for ticks := 1; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			tick.Again()
			s.upload(ctx)
			if ticks++; ticks%sweepEach == 0 {
				s.sweep()
				s.reportClock()
			}
		case <-s.outageBegan:
			probe.Reset(s.scheduleProbe())
		case <-probe.C:
			if s.outage.Load() != nil && s.probe(ctx) != nil {
				probe.Reset(s.scheduleProbe())
			}
		}
	}
}

// scheduleProbe sets and returns the time until the next probe, random so that gateways do not
// probe at the same time.
func (s *Store) scheduleProbe() time.Duration {
	every := s.configured.Load().ProbeEvery
	wait := every - every/5 + rand.N(2*every/5+1)
	s.nextProbe.Store(s.clock().Add(wait).UnixNano())
	return wait
}

// ProbeFirst probes the shared store before the first request, until a probe succeeds or an outage
// begins.
func (s *Store) ProbeFirst(ctx context.Context) {
	for s.outage.Load() == nil && s.probe(ctx) != nil && ctx.Err() == nil {
	}
}

// probe makes a call that decides and records a request, of no client. A success ends the outage.
func (s *Store) probe(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout) // a probe that hangs must not stop Run
	defer cancel()
	err := s.call(func() error { return s.shared.Ping(bounded) })
	if err == nil {
		s.endOutage()
	}
	return err
}

// upload uploads admissions until an outage begins, for at most half of the time until the next
// uploads. It skips tokens whose call fails: in a cluster, others may be on a node that works.
func (s *Store) upload(ctx context.Context) {
	if s.outage.Load() != nil || !s.mayHaveOwn.Swap(false) {
		return
	}
	start, list := s.now(), s.toUpload()
	for _, r := range list {
		if s.outage.Load() != nil || s.now()-start > uploadEvery/2 {
			s.mayHaveOwn.Store(true)
			return
		}
		_, _ = s.exchange(ctx, r) // an error is counted, and sets mayHaveOwn
	}
	if len(list) == uploadsAtOnce {
		s.mayHaveOwn.Store(true)
	}
}

// toUpload returns requests for the uploads of up to uploadsAtOnce tokens, from a random one on.
func (s *Store) toUpload() (list []*request) {
	first := rand.N(shards)
	for i := range s.shards {
		s.shards[(first+i)%shards].visitAll(func(e *entry, id string) {
			if e.own != nil && e.sent == nil && len(list) < uploadsAtOnce {
				list = append(list, &request{id, e.policy, ratelimit.OpUpload})
			}
		})
	}
	return list
}
