package ratelimit

import (
	"math"
	"slices"
	"time"
)

// An entry is n admissions at a time.
type entry struct{ at, n int64 }

// admissions returns the admissions from before a time, oldest first. Those of a bucket count as of its last instant, or as of the time if
// the bucket contains it.
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

// filled returns an empty window with the admissions of a list, which has the oldest first.
func (w window) filled(list []entry, now, lengths int64) window {
	a := Account(w)
	for _, e := range list {
		at := min(e.at, now)
		if w.exact() && at+w.length()*lengths <= now {
			continue // it has expired; expired buckets are ignored by add
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

// source returns the admissions before a time for a window that the account does not have. They are those of one window: of those that
// cover the new one, one with times, or else the shortest; if none does, the one that covers most.
func (a Account) source(s shape, now, before int64) []entry {
	var best window
	var covered int64
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		w := window(a[at:])
		c := w.coverage(now)
		better := best == nil || c > covered
		if covered >= s.length { // the best covers the new one
			better = c >= s.length && (w.exact() && !best.exact() || w.exact() == best.exact() && c < covered)
		}
		if better {
			best, covered = w, c
		}
	}
	if best == nil {
		return nil
	}
	return best.admissions(before)
}

// advanced returns a copy, advanced to now; nil if the value is not an account.
func (a Account) advanced(now, lengths int64) Account {
	if !a.valid() {
		return nil
	}
	a, _ = slices.Clone(a).advance(now, lengths)
	return a
}

// Merge returns an account with the usage of two accounts, which may be nil and are not modified; a is that of a store. Windows of times
// keep admissions for a number of lengths. With union, an admission in both accounts counts once: of the counts of a bucket, the larger one
// applies. Else counts are added. To a window that only one account has, the other account adds the admissions of one of its own; with
// union, b adds only those from before the window was made, as the store has recorded all later ones in it.
func Merge(a, b Account, union bool, lengths int, at time.Time) Account {
	now := instant(at)
	a, b = a.advanced(now, int64(lengths)), b.advanced(now, int64(lengths))
	if len(a) <= headerBytes {
		return b
	}
	if len(b) <= headerBytes {
		return a
	}
	merged := Account{form, 0}
	for _, account := range []Account{a, b} {
		for at := headerBytes; at < len(account) && merged[1] < maxWindows; at += window(account[at:]).size() {
			if s := window(account[at:]).shape(); merged.find(s) < 0 {
				merged = append(merged, s.mergeWindow(a, b, union, int64(lengths), now)...)
				merged[1]++
			}
		}
	}
	return merged
}

// mergeWindow returns a window of two accounts, of which at least one has it.
func (s shape) mergeWindow(a, b Account, union bool, lengths, now int64) window {
	merged, before := s.newWindow(0, now, now), int64(math.MaxInt64)
	var lists [2][]entry
	for i, account := range []Account{a, b} {
		if at := account.find(s); at >= 0 {
			w := window(account[at:])
			lists[i] = w.admissions(math.MaxInt64)
			merged.setLastUsed(max(merged.lastUsed(), w.lastUsed()))
			merged.setSince(min(merged.since(), w.since()))
			if i == 0 && union {
				before = w.since()
			}
		}
	}
	for i, account := range []Account{a, b} {
		if account.find(s) < 0 { // rounded as the other one is, so that a union counts admissions in both once
			lists[i] = s.newWindow(0, now, now).filled(account.source(s, now, before), now, lengths).admissions(math.MaxInt64)
			merged.setSince(now) // a window that is filled from others is made now
		}
	}
	return merged.filled(mergeLists(lists[0], lists[1], union), now, lengths)
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
