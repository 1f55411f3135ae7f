package failover_test

import (
	"context"
	"errors"
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
	gone   // connections are refused
	frozen // calls are not answered, and executed when it thaws
	cut    // calls do not arrive, and time out
	full   // calls are answered by an error, and not executed
)

// An outOfMemory is an answer of a Redis that has no memory left.
type outOfMemory struct{ error }

func (outOfMemory) RedisError() {}

// A sharedStore is a shared store in memory that a test takes out of use in all the ways that a Redis goes, in a bubble of synctest where
// it does.
type sharedStore struct {
	clock func() time.Time

	mu       sync.Mutex
	how      int
	accounts map[string]ratelimit.Account
	missed   []func()               // what arrived while it was frozen
	lazy     int                    // so many uploads are executed and not answered
	late     map[string][]time.Time // when requests were decided that it had received while frozen
	moved    int                    // uploads that it had received while frozen
	broken   error                  // of calls while it is gone
	before   func()                 // called once, before the next exchange is executed; nil for none
	inCall   func()                 // called once, when the next exchange is executed and not yet answered; nil for none

	decides, uploads, pings, refused atomic.Int64
}

func newShared(clock func() time.Time) *sharedStore {
	s := &sharedStore{clock: clock, late: map[string][]time.Time{}, broken: syscall.ECONNREFUSED}
	s.lose()
	return s
}

// become puts the store into a state. One that thaws executes what it received.
func (s *sharedStore) become(how int) {
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

// lose drops all accounts, as a server does that was restarted.
func (s *sharedStore) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts, s.missed = map[string]ratelimit.Account{}, nil
}

// do executes a call, or fails as the store is. It ignores whether the call's context ends meanwhile, as redisstore does.
func (s *sharedStore) do(what func()) error {
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
		return fmt.Errorf("dialing: %w", s.broken)
	case full:
		return outOfMemory{errors.New("OOM command not allowed")}
	default:
		<-time.After(callTimeout) // of the bubble that the test is in
		return context.DeadlineExceeded
	}
}

func (s *sharedStore) Exchange(
	ctx context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Decision{}, nil, err
	}
	var (
		d    ratelimit.Decision
		a    ratelimit.Account
		lazy bool
	)
	s.once(&s.before)
	uploads := x.Known != nil || x.Own != nil
	if uploads {
		s.uploads.Add(1)
	}
	if x.Op == ratelimit.OpDecide {
		s.decides.Add(1)
	}
	err := s.do(func() { // after an error, perhaps later
		var write bool
		a, write, d = p.Exchange(s.accounts[tokenID], x, s.clock())
		if write {
			s.accounts[tokenID] = slices.Clone(a)
		}
		if uploads {
			lazy = s.lazy > 0
			s.lazy--
		}
		if len(s.missed) > 0 && uploads {
			s.moved++
		}
		if len(s.missed) > 0 && x.Op == ratelimit.OpDecide && d.Allowed {
			s.late[tokenID] = append(s.late[tokenID], s.clock())
		}
	})
	s.once(&s.inCall)
	if err == nil && lazy {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return ratelimit.Decision{}, nil, err
	}
	return d, a, nil
}

// once calls a function, if there is one, and not again.
func (s *sharedStore) once(f *func()) {
	s.mu.Lock()
	do := *f
	*f = nil
	s.mu.Unlock()
	if do != nil {
		do()
	}
}

func (s *sharedStore) Refund(_ context.Context, tokenID string, _ *ratelimit.Policy, d ratelimit.Decision) error {
	return s.do(func() { s.accounts[tokenID] = s.accounts[tokenID].Refund(d.At, d.Shadowed < 0) })
}

func (s *sharedStore) Reset(_ context.Context, tokenID string) error {
	return s.do(func() { delete(s.accounts, tokenID) })
}

func (s *sharedStore) Ping(context.Context) error {
	s.pings.Add(1)
	return s.do(func() {})
}

// used is how many admissions count of a token there, in the first limit of the policy.
func (s *sharedStore) used(tokenID string, p *ratelimit.Policy) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, d := p.Exchange(s.accounts[tokenID], ratelimit.Exchange{Op: ratelimit.OpPeek}, s.clock())
	return p.Limits()[0].Requests - d.Budgets[0].Remaining
}

// lateSince is how many requests of a token were decided late after a time.
func (s *sharedStore) lateSince(tokenID string, after time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.late[tokenID] {
		if at.After(after) {
			n++
		}
	}
	return n
}
