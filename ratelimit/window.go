package ratelimit

import (
	"math"
	"slices"
)

// OneLength is for the accounts of a store: they keep times for one length of their window. Those of [Policy.DecideShare] keep them for as
// many lengths as there are gateways, because it counts the admissions of that period too.
const OneLength = 1

// advance brings the account to now, in place. It drops admissions that have left their window: times after a number of lengths, buckets
// after one. It moves times in the future (of admissions, lastUsed, since), which are from before the clock was set back, to now, and
// reports whether it moved any.
func (a Account) advance(now, lengths int64) (_ Account, moved bool) {
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		w := window(a[at:])
		if w.lastUsed() > now || w.since() > now {
			w.setLastUsed(min(w.lastUsed(), now))
			w.setSince(min(w.since(), now))
			moved = true
		}
		if w.exact() {
			expired, movedTimes := w.advanceTimes(now, lengths)
			a = slices.Delete(a, at+stateAt, at+stateAt+expired*timeBytes)
			a[at+tagAt] -= byte(expired)
			moved = moved || movedTimes
		} else if future := w.advanceBuckets(now); future > 0 {
			a, moved = a.add(at, now, future), true
		}
	}
	return a, moved
}

// advanceTimes moves times in the future to now, and returns the number of expired times, which are the oldest.
func (w window) advanceTimes(now, lengths int64) (expired int, moved bool) {
	for i := w.times() - 1; i >= 0 && w.time(i) > now; i-- {
		w.setTime(i, now)
		moved = true
	}
	for expired < w.times() && w.time(expired)+w.length()*lengths <= now {
		expired++
	}
	return expired, moved
}

// advanceBuckets clears the buckets that have left the window and those in the future, and returns the number of admissions in the latter.
func (w window) advanceBuckets(now int64) (future int64) {
	newest, present := w.newest(), now/w.width()
	// Each loop visits each place at most once, however far the clock moved.
	for b := max(present, newest-numBuckets) + 1; b <= newest; b++ { // buckets in the future
		future += w.count(b)
		w.setCount(b, 0)
	}
	for b := max(newest, present-numBuckets) + 1; b <= present; b++ { // new buckets, in the places of those that left the window
		w.setCount(b, 0)
	}
	w.setNewest(present)
	return future
}

// record records an admission at now in every window, in place, and returns the account, which must be advanced to now.
func (a Account) record(now int64) Account {
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		a = a.add(at, now, 1)
	}
	return a
}

// add adds n admissions at t to the window at an offset, in place, and returns the account. It ignores those of an expired bucket. t must
// not be before a time in the window.
func (a Account) add(at int, t, n int64) Account {
	w := window(a[at:])
	if !w.exact() {
		b := t / w.width()
		if !w.holds(b) {
			return a
		}
		sum := min(w.count(b)+n, math.MaxUint32)
		for ; w.countBytes() < bytesFor(sum); w = window(a[at:]) {
			a = a.widen(at)
		}
		w.setCount(b, sum)
		return a
	}
	for range min(n, maxTimes) {
		if w.times() < maxTimes {
			a = slices.Insert(a, at+w.size(), make([]byte, timeBytes)...)
			a[at+tagAt]++
			w = window(a[at:])
		} else {
			copy(w[stateAt:w.size()], w[stateAt+timeBytes:w.size()])
		}
		w.setTime(w.times()-1, t)
	}
	return a
}

// remove removes an admission at t from the window at an offset, in place, if it has one, and returns the account.
func (a Account) remove(at int, t int64) Account {
	w := window(a[at:])
	if !w.exact() {
		if b := t / w.width(); t >= w.since() && w.holds(b) && w.count(b) > 0 { // an earlier one may be in a later bucket
			w.setCount(b, w.count(b)-1)
		}
		return a
	}
	i := w.times() - 1
	for i >= 0 && w.time(i) != t {
		i--
	}
	if i < 0 {
		return a
	}
	from := at + stateAt
	if w.times() == maxTimes { // full: older ones may have been dropped, so a copy of the oldest replaces t (no change if t is the oldest)
		copy(a[from+timeBytes:], a[from:from+i*timeBytes])
		return a
	}
	a[at+tagAt]--
	return slices.Delete(a, from+i*timeBytes, from+(i+1)*timeBytes)
}

// A usage is the number of admissions in a window, and the µs until a limit has more requests remaining: if it is full, until the count is
// below it, else until the count decreases. Both are 0 for an empty window.
type usage struct{ count, untilMore int64 }

// usageOf counts the admissions for a limit of a number of requests. The window must be advanced to now.
func (w window) usageOf(requests, now int64) usage {
	if w.exact() {
		n := int64(w.times())
		if n == 0 {
			return usage{}
		}
		i := n - min(n, requests) // the time that must expire: the oldest, or a later one if the count exceeds the limit
		return usage{n, w.time(int(i)) + w.length() - now}
	}
	counts := w.counts()
	var u usage
	for _, n := range counts {
		u.count += int64(n)
	}
	rest := u.count // in the loop: the count after bucket i has expired
	for i, n := range counts {
		if rest -= int64(n); n > 0 && rest < requests {
			u.untilMore = w.expires(w.newest()-numBuckets+1+int64(i)) - now
			break
		}
	}
	return u
}

// counts returns the counts of all buckets, the oldest first. It computes one remainder, not one for each as count does: decisions spend
// most of their time here.
func (w window) counts() (list [numBuckets]uint32) {
	place := int((w.newest() + 1) % numBuckets)
	for i := range list {
		list[i] = w.countAt(place)
		if place++; place == numBuckets {
			place = 0
		}
	}
	return list
}

// total returns the number of admissions. The window must be advanced to now.
func (w window) total() (n int64) {
	if w.exact() {
		return int64(w.times())
	}
	for _, c := range w.counts() {
		n += int64(c)
	}
	return n
}

// usageAt returns the number of admissions in the window at t, and when the first of them leaves it; 0 and MaxInt64 for an empty or nil
// window. t may be earlier or later than the time that the window was advanced to. Times count for the given number of lengths, buckets for
// one.
func (w window) usageAt(t, lengths int64) (n, next int64) {
	next = math.MaxInt64 // the loops go from the newest to the oldest, so the oldest sets it last
	if w == nil {
		return 0, next
	}
	if w.exact() {
		for i := w.times() - 1; i >= 0 && w.time(i)+w.length()*lengths > t; i-- {
			n, next = n+1, w.time(i)+w.length()*lengths
		}
		return n, next
	}
	for b := w.newest(); b > max(w.newest(), t/w.width())-numBuckets; b-- {
		if c := w.count(b); c > 0 {
			n, next = n+c, w.expires(b)
		}
	}
	return n, next
}
