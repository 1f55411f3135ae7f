package failover_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"opsgate/ratelimit"
)

const callTimeout = 50 * time.Millisecond

// How a shared store is.
const (
	well   = iota
	gone   // nobody is there
	frozen // calls arrive, are not answered, and executed when it thaws
	cut    // calls do not arrive, and nobody says so
)

// A shared store that a test takes away in all the ways that a Redis goes, in a bubble of synctest where it does.
type shared struct {
	clock func() time.Time

	mu     sync.Mutex
	how    int
	memory *ratelimit.Memory
	since  map[string]time.Time // since when it knows all of a token
	missed []func()             // what arrived while it was frozen
	lazy   int                  // so many calls of Settle are executed and not answered
	late   int                  // so many requests were decided when it thawed
	moved  int                  // so many times it was told of a token when it had frozen, and heard it when it thawed

	decides, settles, pings, refused atomic.Int64
}

func newShared(clock func() time.Time) *shared {
	s := &shared{clock: clock}
	s.lose()
	return s
}

// become puts the store into a state. One that thaws does what it has missed.
func (s *shared) become(how int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how = how
	if how == well {
		for _, do := range s.missed {
			do()
		}
		s.missed = nil
	}
}

// lose has it forget everything, as a server does that was restarted.
func (s *shared) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory, s.since, s.missed = ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: s.clock}), map[string]time.Time{}, nil
}

// do does something there, or fails as the store is. It is not asked of a request whether its context ended, as by go-redis.
func (s *shared) do(what func()) error {
	s.mu.Lock()
	how := s.how
	switch how {
	case well:
		what()
	case frozen:
		s.missed = append(s.missed, what)
	}
	s.mu.Unlock()
	switch how {
	case well:
		return nil
	case gone:
		s.refused.Add(1)
		return fmt.Errorf("dialing: %w", syscall.ECONNREFUSED)
	default:
		<-time.After(callTimeout) // of the bubble that the test is in
		return context.DeadlineExceeded
	}
}

func (s *shared) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (d ratelimit.Decision, err error) {
	s.decides.Add(1)
	err = s.do(func() {
		if _, known := s.since[tokenID]; !known {
			s.since[tokenID] = s.clock()
		}
		if len(s.missed) > 0 {
			s.late++
		}
		d, _ = s.memory.Decide(ctx, tokenID, p)
	})
	return d, err
}

func (s *shared) Peek(ctx context.Context, tokenID string, p *ratelimit.Policy) (d ratelimit.Decision, err error) {
	err = s.do(func() { d, _ = s.memory.Peek(ctx, tokenID, p) })
	return d, err
}

func (s *shared) Refund(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error {
	return s.do(func() { _ = s.memory.Refund(ctx, tokenID, p, d) })
}

func (s *shared) Reset(ctx context.Context, tokenID string) error {
	return s.do(func() {
		delete(s.since, tokenID)
		_ = s.memory.Reset(ctx, tokenID)
	})
}

func (s *shared) Ping(context.Context) error {
	s.pings.Add(1)
	return s.do(func() {})
}

// Settle does what settle.lua of package redisstore does.
func (s *shared) Settle(_ context.Context, tokenID string, p *ratelimit.Policy, before, during []ratelimit.Spending) error {
	s.settles.Add(1)
	lazy := false
	err := s.do(func() {
		if len(s.missed) > 0 {
			s.moved++
		}
		lazy = s.lazy > 0
		s.lazy--
		s.settle(tokenID, p, before, during)
	})
	if err == nil && lazy {
		return context.DeadlineExceeded
	}
	return err
}

func (s *shared) settle(tokenID string, p *ratelimit.Policy, before, during []ratelimit.Spending) {
	now := s.clock()
	since, known := s.since[tokenID]
	oldest := since
	if !known {
		since, oldest = now.Add(1), now
	}
	all := slices.Concat(s.memory.Spent(tokenID), during)
	for _, sp := range before {
		if at := now.Add(-sp.Age); at.Before(since) {
			all = append(all, sp)
			if at.Before(oldest) {
				oldest = at
			}
		}
	}
	s.since[tokenID] = oldest
	slices.SortStableFunc(all, func(x, y ratelimit.Spending) int { return cmp.Compare(x.Age, y.Age) })
	s.memory.Seed(tokenID, p, all)
}

// spent is how much counts of a token there in a window of that length.
func (s *shared) spent(tokenID string, per time.Duration) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.memory.Spent(tokenID) {
		if sp.Age < per {
			n += sp.N
		}
	}
	return n
}
