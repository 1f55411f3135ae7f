package ratelimit

// Sweep is sweep for tests.
func (m *Memory) Sweep() { m.sweep() }

// Len returns the number of tokens with an account.
func (m *Memory) Len() int {
	n := 0
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		n += len(sh.tokens)
		sh.mu.Unlock()
	}
	return n
}
