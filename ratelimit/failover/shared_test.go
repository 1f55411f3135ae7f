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
	"opsgate/ratelimit/failover"
)

const callTimeout = 50 * time.Millisecond

// A condition of a shared store.
type condition int

const (
	working     condition = iota
	refusing              // connections are refused
	failing               // calls are answered with an error, and not executed
	unreachable           // calls time out, and are not executed
	hanging               // calls time out, and are executed when the store works again
)

var errRefused = fmt.Errorf("%w: %w", ratelimit.ErrNotExecuted, syscall.ECONNREFUSED)

// A sharedStore is a shared store in memory whose condition a test sets. Unless it works, it must
// be in a bubble of synctest.
type sharedStore struct {
	clock func() time.Time

	mu        sync.Mutex
	condition condition
	accounts  map[string]ratelimit.Account
	received  []func()               // calls that it received while hanging
	late      map[string][]time.Time // times of admissions of such calls
	lost      map[string]int         // uploads without an answer
	inCall    func()                 // called once, after the next exchange is executed and before it is answered; nil for none

	decides, peeks, uploads, pings atomic.Int64
}

var _ failover.Shared = (*sharedStore)(nil)

func newShared() *sharedStore {
	s := &sharedStore{clock: time.Now, late: map[string][]time.Time{}, lost: map[string]int{}}
	s.lose()
	return s
}

// become sets the condition. A store that works again executes the calls that it received while
// hanging.
func (s *sharedStore) become(c condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.condition = c
	if c == working {
		for _, do := range s.received {
			do()
		}
		s.received = nil
	}
}

// lose drops all accounts, as a restart does.
func (s *sharedStore) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts, s.received = map[string]ratelimit.Account{}, nil
}

// do executes a call, or fails according to the condition. It does not end with the call's context,
// as redisstore does not.
func (s *sharedStore) do(call func()) error {
	s.mu.Lock()
	condition := s.condition
	switch condition {
	case working:
		call()
	case hanging:
		s.received = append(s.received, call)
	}
	s.mu.Unlock()
	switch condition {
	case working:
		return nil
	case refusing:
		return fmt.Errorf("dial: %w", errRefused)
	case failing:
		return fmt.Errorf("%w: OOM command not allowed", ratelimit.ErrNotExecuted)
	default:
		<-time.After(callTimeout)
		return context.DeadlineExceeded
	}
}

func (s *sharedStore) Exchange(
	_ context.Context, tokenID string, p *ratelimit.Policy, x ratelimit.Exchange,
) (ratelimit.Decision, ratelimit.Account, error) {
	[...]*atomic.Int64{ratelimit.OpDecide: &s.decides, ratelimit.OpPeek: &s.peeks, ratelimit.OpUpload: new(atomic.Int64)}[x.Op].Add(1)
	if x.Upload != nil {
		s.uploads.Add(1)
	}
	var d ratelimit.Decision // written after the return if the store hangs, so these are no results
	var a ratelimit.Account
	err := s.do(func() {
		var write bool
		a, write, d = p.ExecuteExchange(s.accounts[tokenID], x, s.clock())
		if write {
			s.accounts[tokenID] = slices.Clone(a)
		}
		if len(s.received) > 0 && x.Op == ratelimit.OpDecide && d.Allowed {
			s.late[tokenID] = append(s.late[tokenID], s.clock())
		}
	})
	if err != nil && !errors.Is(err, ratelimit.ErrNotExecuted) {
		s.recordLost(tokenID, x)
	}
	s.mu.Lock()
	do := s.inCall
	s.inCall = nil
	s.mu.Unlock()
	if do != nil {
		do()
	}
	if err != nil {
		return ratelimit.Decision{}, nil, err
	}
	return d, a, nil
}

// duringNextCall sets inCall.
func (s *sharedStore) duringNextCall(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inCall = do
}

// recordLost records that an upload of a token has no answer.
func (s *sharedStore) recordLost(tokenID string, x ratelimit.Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.Upload != nil {
		s.lost[tokenID]++
	}
}

// lostUploads returns the number of uploads of a token without an answer.
func (s *sharedStore) lostUploads(tokenID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[tokenID]
}

func (s *sharedStore) Refund(_ context.Context, tokenID string, d ratelimit.Decision) error {
	return s.do(func() { s.accounts[tokenID] = s.accounts[tokenID].Refund(d.At) })
}

func (s *sharedStore) Reset(_ context.Context, tokenID string) error {
	return s.do(func() { delete(s.accounts, tokenID) })
}

func (s *sharedStore) Ping(context.Context) error {
	s.pings.Add(1)
	return s.do(func() {})
}

// used returns the number of admissions that count in the first limit of the policy.
func (s *sharedStore) used(tokenID string, p *ratelimit.Policy) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, d := p.ExecuteExchange(s.accounts[tokenID], ratelimit.Exchange{Op: ratelimit.OpPeek}, s.clock())
	return p.Limits()[0].Requests - d.Budgets[0].Remaining
}

// lateSince returns the number of late admissions of a token after a time.
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
