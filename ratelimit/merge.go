package ratelimit

import (
	"slices"
	"time"
)

// An entry is n admissions of the same time.
type entry struct{ at, n int64 }

// admissions returns the admissions earlier than `before`, oldest first, and those of a bucket that begins earlier. Admissions of a bucket
// get the time of its last instant, at most `before`.
func (w window) admissions(before int64) (list []entry) {
	if w.exact() {
		for i := 0; i < w.times() && w.time(i) < before; i++ {
			list = append(list, entry{w.time(i), 1})
		}
		return list
	}
	for b := w.newest() - numBuckets + 1; b <= w.newest() && b*w.width() < before; b++ {
		if n := w.count(b); n > 0 {
			list = append(list, entry{min((b+1)*w.width()-1, before), n})
		}
	}
	return list
}

// fill adds a list of admissions, oldest first, to the window, which must be empty, and returns it.
func (w window) fill(list []entry, now, lengths int64) window {
	a := Account(w) // without a header, which add does not read
	for _, e := range list {
		at := min(e.at, now)
		if w.exact() && at+w.length()*lengths <= now {
			continue // expired; add ignores expired buckets itself
		}
		a = a.add(0, at, e.n)
	}
	return window(a)
}

// coverage returns for how many µs before now the window has all admissions.
func (w window) coverage(now int64) int64 {
	if w.exact() && w.times() == maxTimes {
		return now - w.time(0)
	}
	return w.length()
}

// sourceAdmissions chooses the window from which a missing one of the shape is filled, and returns its admissions earlier than `before`.
func (a Account) sourceAdmissions(s shape, now, before int64) []entry {
	var best window
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		if w := window(a[at:]); best == nil || s.isBetterSource(w, best, now) {
			best = w
		}
	}
	if best == nil {
		return nil
	}
	return best.admissions(before)
}

// isBetterSource reports whether w is better than other to fill a new window of the shape. If both cover it, one with times is better, or
// else the shorter one; otherwise the one that covers more.
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

// advancedCopy returns a copy, advanced to now; nil if the value is not an account.
func (a Account) advancedCopy(now, lengths int64) Account {
	if !a.valid() {
		return nil
	}
	a, _ = slices.Clone(a).advance(now, lengths)
	return a
}

// Union returns the account of a store with the admissions of one that it returned earlier. An admission in both counts once: of the counts
// of a bucket, the larger one applies. The accounts may be nil, and are not modified.
func Union(stored, lastSeen Account, at time.Time) Account {
	return merge(stored, lastSeen, true, OneLength, instant(at))
}

// Sum returns an account with the admissions of two that have none in common. Windows of times keep admissions for a number of lengths. The
// accounts may be nil, and are not modified.
func Sum(a, b Account, lengths int, at time.Time) Account {
	return merge(a, b, false, int64(lengths), instant(at))
}

// merge merges two accounts, window by window. With union, a is the account of a store, and b one that it returned earlier.
func merge(a, b Account, union bool, lengths, now int64) Account {
	a, b = a.advancedCopy(now, lengths), b.advancedCopy(now, lengths)
	if len(a) <= headerBytes {
		return b
	}
	if len(b) <= headerBytes {
		return a
	}
	merged := Account{form, 0}
	for _, account := range []Account{a, b} {
		for at := headerBytes; at < len(account) && merged[1] < maxWindows; at += window(account[at:]).size() {
			if s := window(account[at:]).shape(); merged.find(s) == nil {
				merged = append(merged, s.mergeWindow(a, b, union, lengths, now)...)
				merged[1]++
			}
		}
	}
	return merged
}

// mergeWindow merges the windows that two accounts have of a shape. If one account lacks it, it is first filled from that account's other
// windows, so that times of both are rounded to the same buckets before mergeLists compares them.
func (s shape) mergeWindow(a, b Account, union bool, lengths, now int64) window {
	ofA, ofB, merged := a.find(s), b.find(s), s.newWindow(now)
	switch {
	case ofA == nil:
		merged.setLastUsed(ofB.lastUsed())
		ofA = s.newWindow(now).fill(a.sourceAdmissions(s, now, noBound), now, lengths)
	case ofB == nil:
		before := int64(noBound)
		if union { // the store's window has every admission since it was made, so b can add only earlier ones
			before = ofA.since()
		}
		merged.setLastUsed(ofA.lastUsed())
		ofB = s.newWindow(now).fill(b.sourceAdmissions(s, now, before), now, lengths)
	default:
		merged.setLastUsed(max(ofA.lastUsed(), ofB.lastUsed()))
		merged.setSince(min(ofA.since(), ofB.since()))
	}
	return merged.fill(mergeLists(ofA.admissions(noBound), ofB.admissions(noBound), union), now, lengths)
}

// mergeLists merges two lists in the order of time. With union, admissions in both lists count once.
func mergeLists(a, b []entry, union bool) []entry {
	list := make([]entry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].at < b[0].at:
			list, a = append(list, a[0]), a[1:]
		case a[0].at > b[0].at:
			list, b = append(list, b[0]), b[1:]
		default:
			both := entry{a[0].at, a[0].n + b[0].n}
			if union {
				both.n = max(a[0].n, b[0].n)
			}
			list, a, b = append(list, both), a[1:], b[1:]
		}
	}
	return append(append(list, a...), b...)
}
