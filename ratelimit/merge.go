package ratelimit

import (
	"slices"
	"time"
)

// A group is n admissions of the same time.
type group struct{ at, n int64 }

// groups returns the admissions of the window, oldest first. Those of a bucket get the time of its
// last instant.
func (w window) groups() (list []group) {
	if w.exact() {
		for i := range w.times() {
			list = append(list, group{w.time(i), 1})
		}
		return list
	}
	for b := w.newest() - numBuckets + 1; b <= w.newest(); b++ {
		if n := w.count(b); n > 0 {
			list = append(list, group{(b+1)*w.width() - 1, n})
		}
	}
	return list
}

// copyWindow returns a window of a shape that the account lacks, which is made and used now, and
// filled from the best of its windows.
func (a Account) copyWindow(s shape, now int64) window {
	filled := append(Account{form, 1}, s.newWindow(now)...)
	for _, g := range a.source(s, now).groups() {
		at := min(g.at, now)
		if s.exact && at+s.length <= now {
			continue // expired; add ignores expired buckets itself
		}
		filled = filled.add(headerBytes, at, g.n)
	}
	return window(filled[headerBytes:])
}

// source returns the window from which a missing one of the shape is filled; an empty one if the
// account has none.
func (a Account) source(s shape, now int64) window {
	var best window
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		if w := window(a[at:]); best == nil || s.isBetterSource(w, best, now) {
			best = w
		}
	}
	if best == nil {
		return s.newWindow(now)
	}
	return best
}

// isBetterSource reports whether w is better than other to fill a new window of the shape. If both
// cover it, one with times is better, or else the shorter one; otherwise the one that covers more.
func (s shape) isBetterSource(w, other window, now int64) bool {
	covered, byOther := w.coverage(now), other.coverage(now)
	switch {
	case min(covered, byOther) < s.length: // not both cover it
		return covered > byOther
	case w.exact() != other.exact():
		return w.exact()
	default:
		return covered < byOther
	}
}

// coverage returns for how many µs before now the window has all admissions.
func (w window) coverage(now int64) int64 {
	if w.exact() && w.times() == maxTimes {
		return now - w.time(0)
	}
	return w.length()
}

// Sum returns an account with the admissions of two that have none in common. The accounts may be
// nil, and are not modified.
func Sum(a, b Account, at time.Time) Account {
	now := instant(at)
	a, b = a.advancedCopy(now), b.advancedCopy(now)
	if len(a) <= headerBytes {
		return b
	}
	if len(b) <= headerBytes {
		return a
	}
	sum := slices.Clone(a)
	for i := headerBytes; i < len(b) && sum[1] < maxWindows; i += window(b[i:]).size() {
		if w := window(b[i:]); sum.find(w.shape()) == nil {
			missing := a.copyWindow(w.shape(), now)
			missing.setLastUsed(w.lastUsed())
			sum = append(sum, missing...)
			sum[1]++
		}
	}
	for i := headerBytes; i < len(sum); i += window(sum[i:]).size() {
		sum = sum.addWindow(i, b, now)
	}
	return sum
}

// advancedCopy returns a copy, advanced to now; nil if the value is not an account.
func (a Account) advancedCopy(now int64) Account {
	if !a.valid() {
		return nil
	}
	a, _ = slices.Clone(a).advance(now)
	return a
}

// addWindow adds the admissions of another account to the window at an offset, in place, and
// returns the account. If the other account lacks the window, a copy is filled from its others.
func (a Account) addWindow(at int, other Account, now int64) Account {
	w := window(a[at:])
	added := other.find(w.shape())
	if added == nil {
		added = other.copyWindow(w.shape(), now)
		w.setSince(now)
	} else {
		w.setLastUsed(max(w.lastUsed(), added.lastUsed()))
		w.setSince(min(w.since(), added.since()))
	}
	for _, g := range added.groups() {
		a = a.add(at, min(g.at, now), g.n)
	}
	return a
}
