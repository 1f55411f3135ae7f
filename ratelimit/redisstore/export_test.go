package redisstore

import "time"

// Normalized returns an error reply as of Redis 7.
var Normalized = normalized

// SetLastsAfter sets how long a subscription exists before it is reported as working.
func (s *Store) SetLastsAfter(d time.Duration) { s.lastsAfter = d }
