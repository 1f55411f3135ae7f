package ratelimit

import (
	"context"
	"time"
)

// A Spending is N admissions that count as if all were Age ago.
type Spending struct {
	Age time.Duration
	N   int
}

// Peek implements [Store]. It never fails.
func (m *Memory) Peek(_ context.Context, tokenID string, p *Policy) (Decision, error) {
	panic("soon")
}

// Reset implements [Store]. It never fails.
func (m *Memory) Reset(_ context.Context, tokenID string) error {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.tokens, tokenID)
	return nil
}

// Observe brings what is remembered of the token up to what a decision of another store says of it.
func (m *Memory) Observe(tokenID string, p *Policy, d Decision) { panic("soon") }

// Spent returns what is remembered of the token, newest first.
func (m *Memory) Spent(tokenID string) []Spending { panic("soon") }

// Seed remembers of the token, under the policy, what was spent, newest first, and nothing else.
func (m *Memory) Seed(tokenID string, p *Policy, spent []Spending) { panic("soon") }

// Share returns the policy of one of so many replicas that do not know of each other: each limit admits its part, rounded up.
// Its limits are those of p, in their order; where rounding up would let the replicas together pass a limit by more than a
// twentieth, further limits follow them that hold the whole over a longer interval, and [Policy.ShareOf] says of which limit.
func (p *Policy) Share(replicas int) *Policy { panic("soon") }

// ShareOf returns the index of the limit that the i-th limit of a share is for.
func (p *Policy) ShareOf(i int) int { panic("soon") }
