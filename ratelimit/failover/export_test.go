package failover

import "time"

// Sweep is sweep for tests.
func (s *Store) Sweep() { s.sweep() }

// SetStallTick sets the interval at which stalls are looked for.
func (s *Store) SetStallTick(d time.Duration) { s.stalls.tick = d }
