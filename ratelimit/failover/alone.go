package failover

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"opsgate/ratelimit"
)

// decideAlone decides without the shared store, for a cause.
func (s *Store) decideAlone(tokenID string, p *ratelimit.Policy, cause error) (ratelimit.Decision, error) {
	settings := s.settings.Load()
	switch settings.Mode {
	case Deny:
		return ratelimit.Decision{}, s.unavailable(cause)
	case Allow:
		return s.admitted(p), nil
	default:
		return s.decideByShare(tokenID, p, settings.Replicas)
	}
}

// admitted is the decision on a request that is not counted.
func (s *Store) admitted(p *ratelimit.Policy) ratelimit.Decision {
	d := ratelimit.Decision{Allowed: true, Denied: -1, Shadowed: -1, At: s.clock(), Local: true}
	for i, l := range p.Limits() {
		d.Budgets[i].Remaining = l.Requests
	}
	return d
}

func (s *Store) decideByShare(tokenID string, p *ratelimit.Policy, replicas int) (ratelimit.Decision, error) {
	share := s.shares.of(p, replicas)
	sh := s.tokens.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.beginAlone(tokenID, share, replicas)
	d, err := s.alone.Decide(context.Background(), tokenID, share)
	if err != nil {
		return d, err
	}
	if d.Allowed {
		s.owed.Spend(tokenID, p, d)
	}
	a := sh.known[tokenID]
	a.alone++
	sh.known[tokenID] = a
	s.tokens.any.Store(true)
	return whole(d, p, share), nil
}

// beginAlone begins with a part of what the token was known to have spent, and all of what it spent here since.
func (s *Store) beginAlone(tokenID string, share *ratelimit.Policy, replicas int) {
	if s.alone.Knows(tokenID) {
		return
	}
	spent := append(divided(s.mirror.Spent(tokenID), replicas), s.owed.Spent(tokenID)...)
	slices.SortStableFunc(spent, func(x, y ratelimit.Spending) int { return cmp.Compare(x.Age, y.Age) })
	s.alone.Seed(tokenID, share, spent)
}

// peekAlone says what decideAlone would.
func (s *Store) peekAlone(ctx context.Context, tokenID string, p *ratelimit.Policy, cause error) (ratelimit.Decision, error) {
	settings := s.settings.Load()
	if settings.Mode != Local {
		return s.decideAlone(tokenID, p, cause) // which counts nothing
	}
	share := s.shares.of(p, settings.Replicas)
	sh := s.tokens.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	known := s.alone.Knows(tokenID)
	s.beginAlone(tokenID, share, settings.Replicas)
	d, err := s.alone.Peek(ctx, tokenID, share)
	if !known { // the next who asks begins with what is known then
		err = s.alone.Reset(ctx, tokenID)
	}
	return whole(d, p, share), err
}

// divided returns the part of one of so many replicas in what was spent. Nothing is lost to rounding but less than one in all.
func divided(spent []ratelimit.Spending, replicas int) []ratelimit.Spending {
	var part []ratelimit.Spending
	all, taken := 0, 0
	for _, sp := range spent {
		all += sp.N
		if n := all/replicas - taken; n > 0 {
			part = append(part, ratelimit.Spending{Age: sp.Age, N: n})
			taken += n
		}
	}
	return part
}

// whole tells a decision under a share of a policy as one under the policy.
func whole(d ratelimit.Decision, p, share *ratelimit.Policy) ratelimit.Decision {
	d.Local = true
	if d.Denied >= 0 {
		d.Denied = share.ShareOf(d.Denied)
	}
	for i := len(p.Limits()); i < len(share.Limits()); i++ { // those that hold the whole over a longer time
		if of := share.ShareOf(i); d.Budgets[i].Remaining < d.Budgets[of].Remaining {
			d.Budgets[of] = d.Budgets[i]
		}
		d.Budgets[i] = ratelimit.Budget{}
	}
	return d
}

// shares are those of the policies in use. They are few, and go with all others when the configuration has changed often.
type shares struct {
	mu    sync.RWMutex
	known map[shareKey]*ratelimit.Policy
}

type shareKey struct {
	policy   *ratelimit.Policy
	replicas int
}

const maxShares = 10_000

func (sh *shares) of(p *ratelimit.Policy, replicas int) *ratelimit.Policy {
	key := shareKey{p, replicas}
	sh.mu.RLock()
	share, known := sh.known[key]
	sh.mu.RUnlock()
	if known {
		return share
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if share, known = sh.known[key]; known {
		return share
	}
	if len(sh.known) >= maxShares || sh.known == nil {
		sh.known = make(map[shareKey]*ratelimit.Policy)
	}
	share = p.Share(replicas)
	sh.known[key] = share
	return share
}
