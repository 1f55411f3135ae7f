package failover

// Sweep sweeps all shards, as Run does.
func (s *Store) Sweep() { s.sweep() }

// Entries returns the number of tokens of which the store keeps something.
func (s *Store) Entries() (n int) {
	for i := range s.shards {
		s.shards[i].visitAll(func(*entry, string) { n++ })
	}
	return n
}
