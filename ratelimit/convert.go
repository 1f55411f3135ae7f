package ratelimit

import (
	"bytes"
	"slices"
	"sort"
	"time"
)

// A bucket is n admissions between two times, both inclusive.
type bucket struct{ from, to, n int64 }

// A usage is the state of one limit of an account, and its limit.
type usage struct {
	*rule
	state []byte
}

// usages returns the states of an account under the rules.
func (a Account) usages(rules []rule) (list [MaxLimits]usage) {
	at := statesAt(len(rules))
	for i := range rules {
		n := stateBytes(a[at])
		list[i] = usage{&rules[i], a[at : at+n]}
		at += n
	}
	return list
}

// buckets returns the recorded admissions, oldest first.
func (u usage) buckets() []bucket {
	var list []bucket
	if u.state[0] < ringTag {
		s := timestamps(u.state)
		for i := range s.len() {
			list = append(list, bucket{s.at(i), s.at(i), 1})
		}
		return list
	}
	s := newRing(u.rule, u.state)
	for b := s.newest() - numBuckets + 1; b <= s.newest(); b++ {
		if n := s.get(b); n > 0 {
			list = append(list, bucket{b * u.width, (b+1)*u.width - 1, n})
		}
	}
	return list
}

// completeSince returns the time from which on the state has every admission.
func (u usage) completeSince(now int64) int64 {
	if u.state[0] < ringTag {
		return now - u.per + 1
	}
	return (now/u.width - numBuckets + 1) * u.width
}

// encode returns the state of a limit with the admissions of a list, oldest first.
func (r *rule) encode(list []bucket, now int64) []byte {
	var n int64
	list = slices.DeleteFunc(list, func(b bucket) bool { return r.exact() && b.to+r.per <= now })
	for _, b := range list {
		n += b.n
	}
	if r.exact() && n <= MaxExact {
		state := make([]byte, 1, r.fullBytes())
		for _, b := range list {
			for range b.n {
				state = r.add(state, 0, min(b.to, now))
			}
		}
		return state
	}
	size := countBytes(max(n, r.requests))
	s := ring{r.width, size, make([]byte, countsAt+numBuckets*size)}
	s.b[0] = ringTag | byte(size)
	s.setNewest(now / r.width)
	for _, b := range list {
		s.add(min(b.to, now), b.n)
	}
	return s.b
}

// newAccount returns an account of the policy with the usage of another account, of any policy; without usage if old is not an account.
// Each limit is filled from the state that covers its window best; see best. Admissions in a bucket count as admissions at its end, so they
// may count too long, but never too short.
func (p *Policy) newAccount(old Account, now int64) Account {
	var states []usage
	since := now
	if rules, ok := old.rules(); ok {
		old = old.advanced(rules, now)
		list := old.usages(rules)
		states, since = list[:len(rules)], old.since()
	}
	a := p.prefix(since)
	for i := range p.rules {
		list, from := p.rules[i].fill(states, now)
		a = append(a, p.rules[i].encode(list, now)...)
		a.setSince(max(a.since(), min(from, now)))
	}
	return a
}

// prefix returns the part of an account before the states.
func (p *Policy) prefix(since int64) Account {
	a := append(make(Account, 0, p.accountBytes), p.header...)
	a = a[:len(a)+sinceBytes]
	a.setSince(since)
	return a
}

// valid reports whether a value is an account of the policy.
func (p *Policy) valid(a Account) bool {
	if !bytes.HasPrefix(a, p.header) {
		return false
	}
	at := statesAt(len(p.rules))
	if len(a) < at || a.since() >= latest {
		return false
	}
	for i := range p.rules {
		if !p.rules[i].valid(a[at:]) {
			return false
		}
		at += stateBytes(a[at])
	}
	return at == len(a)
}

// advanced returns a copy, advanced to now.
func (a Account) advanced(rules []rule, now int64) Account {
	a, _ = slices.Clone(a).advance(rules, now, 1)
	return a
}

// fill returns the admissions for the state of a limit, oldest first, and the time from which on none is missing. Limits in shadow are
// filled from limits in shadow, and enforced limits from enforced ones. Admissions that are older than such a state come from limits of the
// other kind.
func (r *rule) fill(states []usage, now int64) (list []bucket, since int64) {
	until := now
	for _, shadow := range []bool{r.shadow, !r.shadow} {
		source := best(states, r.per, shadow)
		if source.rule == nil || source.completeSince(now) > until {
			continue
		}
		older := source.buckets()
		older = older[:sort.Search(len(older), func(i int) bool { return older[i].from > until })]
		list = merge(older, list, false)
		until = source.completeSince(now) - 1
		if source.per >= r.per {
			if r.exact() {
				return list, 0 // every admission that counts, with its time
			}
			break
		}
	}
	return list, until + 1
}

// best returns the state with the shortest window that is at least per, or else with the longest window; the zero usage if there is no
// state.
func best(states []usage, per int64, shadow bool) (best usage) {
	for _, u := range states {
		switch {
		case u.shadow != shadow:
		case best.rule == nil, best.per < per && u.per > best.per, u.per >= per && u.per < best.per:
			best = u
		}
	}
	return best
}

// convert returns an account of the policy with the same usage, advanced to now. It does not modify a.
func (p *Policy) convert(a Account, now int64) Account {
	if !p.valid(a) {
		return p.newAccount(a, now)
	}
	return a.advanced(p.rules, now)
}

// merge merges two lists in the order of time. With union, admissions in both lists count once.
func merge(a, b []bucket, union bool) []bucket {
	list := make([]bucket, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].to < b[0].to:
			list, a = append(list, a[0]), a[1:]
		case a[0].to > b[0].to:
			list, b = append(list, b[0]), b[1:]
		default:
			both := a[0]
			if union {
				both.n = max(both.n, b[0].n)
			} else {
				both.n += b[0].n
			}
			list, a, b = append(list, both), a[1:], b[1:]
		}
	}
	return append(append(list, a...), b...)
}

// Refund removes one admission of a time from each limit that still counts one, in place, and returns the account. inShadow reports whether
// limits in shadow recorded the admission.
func (a Account) Refund(at time.Time, inShadow bool) Account {
	rules, ok := a.rules()
	if !ok {
		return a
	}
	t, from := instant(at), statesAt(len(rules))
	complete := t >= a.since() // else the account may lack the admission, and all admissions of its bucket may be others
	for i := range rules {
		r := &rules[i]
		if (complete || a[from] < ringTag) && (!r.shadow || inShadow) {
			a = r.remove(a, from, t)
		}
		from += stateBytes(a[from])
	}
	return a
}

func (r *rule) remove(a Account, at int, t int64) Account {
	if a[at] >= ringTag {
		s := newRing(r, a[at:])
		if b := t / r.width; s.holds(b) && s.get(b) > 0 {
			s.set(b, s.get(b)-1)
		}
		return a
	}
	s := timestamps(a[at:])
	for i := s.len() - 1; i >= 0; i-- {
		if s.at(i) == t {
			from := at + 1 + i*timeBytes
			s[0]--
			return slices.Delete(a, from, from+timeBytes)
		}
	}
	return a
}
