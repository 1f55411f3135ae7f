package ratelimit

// Sweep sweeps all shards, as Run does.
func (m *Memory) Sweep() {
	for i := range m.shards {
		m.shards[i].sweep(m.now)
	}
}

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
