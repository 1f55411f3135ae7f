package ratelimit

import (
	"cmp"
	"slices"
	"time"
)

// A Spending is N admissions that count as if all were Age ago.
type Spending struct {
	Age time.Duration
	N   int
}

// Spent returns what is remembered to count of the token's admissions, newest first.
func (m *Memory) Spent(tokenID string) []Spending {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a, known := sh.tokens[tokenID]
	if !known {
		return nil
	}
	now := m.now()
	a.advance(now)
	spendings := a.spendings()
	list := make([]Spending, len(spendings))
	for i, sp := range spendings {
		list[i] = Spending{Age: time.Duration(now - sp.at), N: int(sp.n)}
	}
	return list
}

// Seed remembers of the token what was spent, newest first, and nothing else.
func (m *Memory) Seed(tokenID string, p *Policy, spent []Spending) {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := m.now()
	known := make([]spending, len(spent))
	for i, sp := range spent {
		known[i] = spending{at: now - int64(sp.Age), n: int64(sp.N)}
	}
	a := newAccount(p, now)
	a.lay(known, now)
	sh.put(tokenID, a)
}

// Knows says whether anything is remembered of the token.
func (m *Memory) Knows(tokenID string) bool {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, known := sh.tokens[tokenID]
	return known
}

// Spend remembers an admission that another store decided on now, whatever the policy's limits say of it. By that decision it
// can be given back here as well.
func (m *Memory) Spend(tokenID string, p *Policy, d Decision) {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := m.now()
	_, known := sh.tokens[tokenID]
	a := sh.account(tokenID, p, now)
	if !known {
		a.serial, a.first = d.Serial-1, d.Serial
	}
	a.advance(now)
	a.skipTo(d.Serial - 1)
	a.spend(now)
}

// Observe brings what is remembered of the token up to a decision of another store under the policy, so that about as much is
// left of every enforced limit here as there. What others spent since it was last observed is taken to be spread evenly.
func (m *Memory) Observe(tokenID string, p *Policy, d Decision) {
	sh := m.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := m.now()
	var last int64
	if a, known := sh.tokens[tokenID]; known {
		last = a.seen
	}
	a := sh.account(tokenID, p, now)
	a.advance(now)
	if d.Allowed {
		a.spend(now)
	}
	a.take(a.missing(&d, now-last), now)
	if a.exceeds(&d) { // something was given back there: begin with what is left
		*a = *newAccount(p, now)
		a.take(a.missing(&d, now), now)
	}
}

// take adds what others spent, newest first, to what is known.
func (s *state) take(missing []spending, now int64) {
	switch {
	case len(missing) == 0:
	case len(missing) == 1 && missing[0].at == now:
		s.add(now, missing[0].n)
	default:
		s.lay(append(s.spendings(), missing...), now)
	}
}

// lay replaces what is known of the token.
func (s *state) lay(known []spending, now int64) {
	slices.SortStableFunc(known, func(x, y spending) int { return cmp.Compare(y.at, x.at) })
	*s = s.relaid(s.layout.rules, known, now)
}
