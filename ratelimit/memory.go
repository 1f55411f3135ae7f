package ratelimit

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

const (
	shards     = 256
	sweepEvery = 10 * time.Second
)

// A Memory is a Store in this process. Its time is monotonic if its clock is. It is safe for
// concurrent use; tokens are spread over shards with a lock each.
type Memory struct {
	clock  func() time.Time
	start  time.Time
	origin int64 // µs since 1970 at start
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu     sync.Mutex
	tokens map[string]*Account
	_      [48]byte // padding to a cache line
}

// NewMemory returns an empty store with a clock, such as [time.Now].
func NewMemory(clock func() time.Time) *Memory {
	start := clock()
	m := &Memory{clock: clock, start: start, origin: start.UnixMicro(), seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].tokens = make(map[string]*Account)
	}
	return m
}

var _ Store = (*Memory)(nil)

// Decide implements [Store]. It never fails.
func (m *Memory) Decide(_ context.Context, tokenID string, p *Policy) (Decision, error) {
	sh := m.lock(tokenID)
	defer sh.mu.Unlock()
	now := m.now() // under the lock, so that the time of a token never decreases
	if d, blocked := p.Blocked(time.UnixMicro(now)); blocked {
		return d, nil
	}
	a, ok := sh.tokens[tokenID]
	if !ok {
		a = new(Account)
		sh.tokens[tokenID] = a
	}
	*a, _ = a.advance(now)
	*a, _ = p.prepareWindows(*a, now)
	var d Decision
	*a, d = p.decide(*a, now, false)
	return d, nil
}

// Refund implements [Store]. It never fails.
func (m *Memory) Refund(_ context.Context, tokenID string, d Decision) error {
	if !d.Allowed {
		return nil
	}
	sh := m.lock(tokenID)
	defer sh.mu.Unlock()
	if a, ok := sh.tokens[tokenID]; ok { // else no admission counts
		*a = a.Refund(d.At)
	}
	return nil
}

// Peek implements [Store]. It never fails.
func (m *Memory) Peek(_ context.Context, tokenID string, p *Policy) (Decision, error) {
	sh := m.lock(tokenID)
	defer sh.mu.Unlock()
	if d, blocked := p.Blocked(time.UnixMicro(m.now())); blocked {
		return d, nil
	}
	var stored Account
	if a, ok := sh.tokens[tokenID]; ok {
		stored = *a
	}
	_, _, d := p.ExecuteExchange(stored, Exchange{Op: OpPeek}, time.UnixMicro(m.now()))
	return d, nil
}

// Reset implements [Store]. It never fails.
func (m *Memory) Reset(_ context.Context, tokenID string) error {
	sh := m.lock(tokenID)
	defer sh.mu.Unlock()
	delete(sh.tokens, tokenID)
	return nil
}

// Run drops accounts without usage, every ten seconds until ctx ends, and then returns nil.
func (m *Memory) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			for i := range m.shards {
				m.shards[i].sweep(m.now)
			}
		}
	}
}

func (sh *shard) sweep(clock func() int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := clock() // under the lock, as in Decide
	for id, a := range sh.tokens {
		if *a, _ = a.advance(now); a.Unused(time.UnixMicro(now)) {
			delete(sh.tokens, id)
		}
	}
}

// lock locks the shard of a token and returns it.
func (m *Memory) lock(id string) *shard {
	sh := &m.shards[maphash.String(m.seed, id)%shards]
	sh.mu.Lock()
	return sh
}

func (m *Memory) now() int64 { return max(earliest, m.clock().Sub(m.start).Microseconds()+m.origin) }
