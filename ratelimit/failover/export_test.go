package failover

// Sweep is sweep for tests.
func (s *Store) Sweep() { s.sweep() }
