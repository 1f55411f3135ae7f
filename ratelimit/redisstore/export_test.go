package redisstore

import "time"

// SetSteadyAfter sets how long a subscription lasts before it is reported as working.
func (s *Store) SetSteadyAfter(d time.Duration) { s.steadyAfter = d }
