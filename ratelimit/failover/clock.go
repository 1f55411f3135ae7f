package failover

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// A sharedClock estimates the time of the shared store's clock. It is safe for concurrent use.
//
// The shared store reads its clock between the start and the end of a call:
//
//	this gateway      start ─────────────── end
//	shared store            ▲ time
//
// So time − end ≤ offset ≤ time − start. The estimate moves into these bounds and no further. A
// call that waited in a queue has wide bounds and moves nothing; the fastest calls have the
// narrowest.
type sharedClock struct {
	offset atomic.Int64 // from a time of this gateway to the time of the shared store, in µs
}

func (c *sharedClock) at(now time.Duration) time.Time {
	return time.UnixMicro(now.Microseconds() + c.offset.Load())
}

// observe adjusts the estimate to an answer with the time of the shared store.
func (c *sharedClock) observe(at time.Time, start, end time.Duration) {
	before := c.offset.Load()
	lower, upper := at.UnixMicro()-end.Microseconds(), at.UnixMicro()-start.Microseconds()
	offset := min(max(before, lower), upper)
	if offset != before { // rare: a write for each answer would contend between cores
		c.offset.Store(offset) // one of two concurrent changes may be lost; the next answer makes it
	}
}

// maxClockStep is the largest change of the difference between the clocks that is not reported.
const maxClockStep = 100 * time.Millisecond

// clockDifference returns the time of the shared store's clock minus that of this gateway's, when
// New was called.
func (s *Store) clockDifference() time.Duration { return s.sharedClock.at(0).Sub(s.start) }

// reportClock logs a change of the difference between the clocks. After a step of the shared
// store's clock, limits are not exact.
func (s *Store) reportClock() {
	before, now := s.lastDifference, s.clockDifference()
	if (now - before).Abs() <= maxClockStep {
		return
	}
	s.lastDifference = now
	s.logger.Warn("the clocks of the gateway and of the shared rate limit store moved against each other",
		slog.String("difference", now.Round(time.Millisecond).String()),
		slog.String("before", before.Round(time.Millisecond).String()))
}
