package ratelimit

import (
	"slices"
	"time"
)

// ExchangeStored is what a shared store does with the account that it has, for tests that compare one with it. It returns the account after it,
// and whether the store writes it.
func (p *Policy) ExchangeStored(stored Account, x Exchange, at time.Time) (a Account, write bool, d Decision) {
	now := instant(at)
	if p.valid(stored) {
		a, write = slices.Clone(stored).advance(p.rules, now, 1)
	} else {
		_, write = stored.rules()
		a = p.rebase(stored, now)
	}
	for i, told := range []Account{x.Known, x.Own} {
		if len(told) > 0 {
			a, write = p.Merge(a, told, i == 0, at), true
		}
	}
	a, d = p.decide(a, now, x.Op != OpDecide)
	return a, x.Op != OpPeek && (write || x.Op == OpDecide && d.Allowed), d
}
