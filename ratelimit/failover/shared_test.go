package failover_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/ratelimit"
)

var errLost = errors.New("connection refused")

// A shared store in memory, that a test takes away and brings back.
type shared struct {
	mu     sync.Mutex
	clock  func() time.Time
	budget *ratelimit.Memory
	since  map[string]time.Time // since when it knows all of a token
	away   atomic.Bool
	slow   atomic.Bool // it answers, but with an error for the outcome is lost
	calls  atomic.Int64
	pings  atomic.Int64
}

func newShared(clock func() time.Time) *shared {
	s := &shared{clock: clock}
	s.lose()
	return s
}

// lose has it forget everything, as a server does that keeps nothing.
func (s *shared) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget, s.since = ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: s.clock}), map[string]time.Time{}
}

func (s *shared) store() (*ratelimit.Memory, error) {
	s.calls.Add(1)
	if s.away.Load() {
		return nil, errLost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budget, nil
}

func (s *shared) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	m, err := s.store()
	if err != nil {
		return ratelimit.Decision{}, err
	}
	s.know(tokenID)
	return m.Decide(ctx, tokenID, p)
}

// know returns since when something is known of the token.
func (s *shared) know(tokenID string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known := s.since[tokenID]
	if !known {
		since = s.clock()
		s.since[tokenID] = since
	}
	return since
}

func (s *shared) Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error {
	m, err := s.store()
	if err != nil {
		return err
	}
	return m.Refund(ctx, tokenID, p, d)
}

func (s *shared) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	m, err := s.store()
	if err != nil {
		return ratelimit.Decision{}, err
	}
	return m.Peek(ctx, tokenID, p)
}

func (s *shared) Reset(ctx context.Context, tokenID string) error {
	m, err := s.store()
	if err != nil {
		return err
	}
	return m.Reset(ctx, tokenID)
}

func (s *shared) Ping(context.Context) error {
	s.pings.Add(1)
	_, err := s.store()
	return err
}

func (s *shared) Settle(_ context.Context, tokenID string, p *ratelimit.Policy, before, during []ratelimit.Spending) error {
	m, err := s.store()
	if err != nil {
		return err
	}
	spent := append(m.Spent(tokenID), during...)
	if len(before) > 0 && !s.know(tokenID).Before(s.clock().Add(-before[0].Age)) { // what was known is lost
		spent = append(spent, missing(m.Spent(tokenID), before, p)...)
	}
	slices.SortStableFunc(spent, func(x, y ratelimit.Spending) int { return cmp.Compare(x.Age, y.Age) })
	m.Seed(tokenID, p, spent)
	return nil
}

// missing returns the newest of what was spent before, as much as is more than what others said already.
func missing(known, before []ratelimit.Spending, p *ratelimit.Policy) (list []ratelimit.Spending) {
	width := p.Limits()[len(p.Limits())-1].Per / 60
	lacking := 0
	for _, sp := range before {
		lacking += sp.N
	}
	for _, sp := range known {
		if sp.Age+width >= before[0].Age {
			lacking -= sp.N
		}
	}
	for _, sp := range before {
		if n := min(sp.N, lacking); n > 0 {
			list = append(list, ratelimit.Spending{Age: sp.Age, N: n})
			lacking -= n
		}
	}
	return list
}
