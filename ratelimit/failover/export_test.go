package failover

import (
	"context"
	"time"
)

// Sweep is sweep for tests.
func (s *Store) Sweep() { s.sweep() }

// Tokens returns the number of tokens in memory.
func (s *Store) Tokens() (n int) {
	for i := range s.shards {
		s.shards[i].visitAll(func(string, *token) { n++ })
	}
	return n
}

// SetStallTick sets the interval at which stalls are looked for.
func (s *Store) SetStallTick(d time.Duration) { s.stalls.tick = d }

// A StallWatch is a stallWatch.
type StallWatch = stallWatch

// NewStallWatch returns a stallWatch.
func NewStallWatch(now func() time.Duration, tick time.Duration) *StallWatch {
	return &stallWatch{now: now, tick: tick}
}

// Run is run for tests.
func (w *stallWatch) Run(ctx context.Context) { w.run(ctx) }

// TotalAt is totalAt for tests.
func (w *stallWatch) TotalAt(now time.Duration) int64 { return w.totalAt(now) }
