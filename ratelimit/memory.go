package ratelimit

import (
	"context"
	"hash/maphash"
	"maps"
	"sync"
	"time"
)

const (
	shards     = 256
	sweepEvery = 10 * time.Second
)

// MemoryOptions are what a Memory is made of.
type MemoryOptions struct {
	Clock func() time.Time // nil for time.Now
}

// A Memory is a Store in this process. Its time is monotonic where its clock is. It is safe for concurrent use, and no lock
// is shared by all tokens.
type Memory struct {
	clock  func() time.Time
	start  time.Time
	origin int64 // nanoseconds at start: those of the wall clock, so that buckets begin at the same times in every store
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu     sync.Mutex
	tokens map[string]*account
	peak   int      // most tokens since the map was made
	_      [40]byte // a cache line each, so that neighbours do not wait for each other
}

// NewMemory returns an empty store.
func NewMemory(o MemoryOptions) *Memory {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	start := o.Clock()
	m := &Memory{clock: o.Clock, start: start, origin: start.UnixNano(), seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].tokens = make(map[string]*account)
	}
	return m
}

var _ Store = (*Memory)(nil)

// Decide implements [Store]. It never fails.
func (m *Memory) Decide(_ context.Context, tokenID string, p *Policy) (Decision, error) {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := m.now() // under the lock, so that a token's time does not run backwards
	d := sh.account(tokenID, p, now).decide(now)
	d.At = m.time(now)
	return d, nil
}

// Refund implements [Store]. It never fails. What is given back was spent under the policy that the token has now, whichever
// the decision was made under: what that admission counts for was carried over.
func (m *Memory) Refund(_ context.Context, tokenID string, _ *Policy, d Decision) error {
	if !d.Allowed {
		return nil
	}
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if a, known := sh.tokens[tokenID]; known { // else it is at rest: nothing counts any more
		a.giveBack(d, m.now(), m.nanoseconds(d.At))
	}
	return nil
}

// Peek implements [Store]. It never fails.
func (m *Memory) Peek(_ context.Context, tokenID string, p *Policy) (Decision, error) {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := m.now()
	a, known := sh.tokens[tokenID]
	switch {
	case !known:
		a = newAccount(p, now)
	case !a.under(p):
		a = a.rebase(p, now)
	}
	d := a.peek(now)
	d.At = m.time(now)
	return d, nil
}

// Reset implements [Store]. It never fails.
func (m *Memory) Reset(_ context.Context, tokenID string) error {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.tokens, tokenID)
	return nil
}

// account returns the token's account, laid out for the policy.
func (sh *shard) account(tokenID string, p *Policy, now int64) *account {
	a, known := sh.tokens[tokenID]
	switch {
	case !known:
		a = newAccount(p, now)
	case !a.under(p):
		a = a.rebase(p, now)
	default:
		return a
	}
	sh.put(tokenID, a)
	return a
}

func (sh *shard) put(tokenID string, a *account) {
	sh.tokens[tokenID] = a
	sh.peak = max(sh.peak, len(sh.tokens))
}

// Len returns the number of tokens that are remembered.
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

// Run forgets tokens at rest, every ten seconds until ctx ends, and then returns nil.
func (m *Memory) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.Sweep()
		}
	}
}

// Sweep forgets tokens at rest now, one part of the store after the other.
func (m *Memory) Sweep() {
	for i := range m.shards {
		m.shards[i].sweep(m.now)
	}
}

func (sh *shard) sweep(clock func() int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := clock() // under the lock, as in Decide
	for id, a := range sh.tokens {
		if a.atRest(now) {
			delete(sh.tokens, id)
		}
	}
	if len(sh.tokens) > sh.peak/4 {
		return
	}
	smaller := make(map[string]*account, len(sh.tokens)) // a map keeps the memory that it once needed
	maps.Copy(smaller, sh.tokens)
	sh.tokens, sh.peak = smaller, len(smaller)
}

func (m *Memory) shard(tokenID string) *shard {
	return &m.shards[maphash.String(m.seed, tokenID)%shards]
}

func (m *Memory) now() int64 { return m.nanoseconds(m.clock()) }

// nanoseconds is positive also where a clock is set back to before 1970.
func (m *Memory) nanoseconds(t time.Time) int64 { return max(1, int64(t.Sub(m.start))+m.origin) }

func (m *Memory) time(now int64) time.Time { return m.start.Add(time.Duration(now - m.origin)) }
