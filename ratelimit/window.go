package ratelimit

import (
	"math"
	"slices"
)

// advance brings the account to now, in place. It drops admissions that have left their window, and
// moves times in the future (of admissions, lastUsed, since), which are from before the clock was
// set back, to now. It reports whether it moved any.
func (a Account) advance(now int64) (_ Account, moved bool) {
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		w := window(a[at:])
		if w.lastUsed() > now || w.since() > now {
			w.setLastUsed(min(w.lastUsed(), now))
			w.setSince(min(w.since(), now))
			moved = true
		}
		if w.exact() {
			expired, movedTimes := w.advanceTimes(now)
			a = slices.Delete(a, at+stateAt, at+stateAt+expired*timeBytes)
			a[at+tagAt] -= byte(expired)
			moved = moved || movedTimes
		} else if future := w.advanceBuckets(now); future > 0 {
			a, moved = a.add(at, now, future), true
		}
	}
	return a, moved
}

// advanceTimes moves times in the future to now, and returns the number of expired times, which are
// the oldest.
func (w window) advanceTimes(now int64) (expired int, moved bool) {
	for i := w.times() - 1; i >= 0 && w.time(i) > now; i-- {
		w.setTime(i, now)
		moved = true
	}
	for expired < w.times() && w.time(expired)+w.length() <= now {
		expired++
	}
	return expired, moved
}

// advanceBuckets clears the buckets that have left the window and those in the future, and returns
// the number of admissions in the latter.
func (w window) advanceBuckets(now int64) (future int64) {
	newest, present := w.newest(), now/w.width()
	// Each loop visits each place at most once, however far the clock moved.
	for b := max(present, newest-numBuckets) + 1; b <= newest; b++ { // buckets in the future
		future += w.count(b)
		w.setCount(b, 0)
	}
	// new buckets, in the places of those that left the window
	for b := max(newest, present-numBuckets) + 1; b <= present; b++ {
		w.setCount(b, 0)
	}
	w.setNewest(present)
	return future
}

// record records an admission at now in every window, in place, and returns the account, which must
// be advanced to now.
func (a Account) record(now int64) Account {
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		a = a.add(at, now, 1)
	}
	return a
}

// add adds n admissions at t to the window at an offset, in place, and returns the account. It
// ignores those of an expired bucket, and times that are older than all of a full window.
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
		a = a.addTime(at, t)
	}
	return a
}

// addTime adds a time to a window, which drops its oldest time if it is full.
func (a Account) addTime(at int, t int64) Account {
	w := window(a[at:])
	i := w.times()
	for i > 0 && w.time(i-1) > t {
		i--
	}
	from := at + stateAt
	switch {
	case w.times() < maxTimes:
		a = slices.Insert(a, from+i*timeBytes, make([]byte, timeBytes)...)
		a[at+tagAt]++
		window(a[at:]).setTime(i, t)
	case i > 0:
		copy(a[from:], a[from+timeBytes:from+i*timeBytes])
		w.setTime(i-1, t)
	}
	return a
}

// remove removes an admission at t from the window at an offset, in place, if it has one, and
// returns the account.
func (a Account) remove(at int, t int64) Account {
	w := window(a[at:])
	if w.exact() {
		return a.removeTime(at, t)
	}
	if b := t / w.width(); t >= w.since() && w.holds(b) && w.count(b) > 0 { // an earlier one may be in a later bucket
		w.setCount(b, w.count(b)-1)
	}
	return a
}

// removeTime removes a time. The oldest of a full window shows only that there may be older ones,
// which were dropped. So a full window stays full: a copy of its oldest time replaces t, and
// nothing changes if t is the oldest.
func (a Account) removeTime(at int, t int64) Account {
	w := window(a[at:])
	i := w.times() - 1
	for i >= 0 && w.time(i) != t {
		i--
	}
	if i < 0 {
		return a
	}
	from := at + stateAt
	if w.times() == maxTimes {
		copy(a[from+timeBytes:], a[from:from+i*timeBytes]) // moves the older ones into the place of t; the oldest stays too
		return a
	}
	a[at+tagAt]--
	return slices.Delete(a, from+i*timeBytes, from+(i+1)*timeBytes)
}

// A usage is the number of admissions in a window, and the µs until more requests of a limit
// remain, which is until fewer than min(count, limit) are in the window. Both are 0 for an empty
// window.
type usage struct{ count, untilMore int64 }

// usageOf counts the admissions for a limit of a number of requests. The window must be advanced to
// now.
func (w window) usageOf(requests, now int64) usage {
	if w.exact() {
		n := int64(w.times())
		if n == 0 {
			return usage{}
		}
		lastInTheWay := w.time(int(n - min(n, requests)))
		return usage{n, lastInTheWay + w.length() - now}
	}
	counts := w.counts()
	var u usage
	for _, n := range counts {
		u.count += int64(n)
	}
	rest := u.count // in the loop: the count after bucket i has expired
	for i, n := range counts {
		if rest -= int64(n); rest < min(u.count, requests) {
			u.untilMore = w.expires(w.newest()-numBuckets+1+int64(i)) - now
			break
		}
	}
	return u
}

// counts returns the counts of all buckets, the oldest first. It computes one remainder, not one
// for each as count does: decisions spend most of their time here.
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

// usageAt returns the number of admissions in the window at t, and when the first of them leaves
// it; 0 and MaxInt64 for an empty window. The window need not be advanced to t.
func (w window) usageAt(t int64) (n, next int64) {
	next = math.MaxInt64 // the loops go from the newest to the oldest, so the oldest sets it last
	if w.exact() {
		for i := w.times() - 1; i >= 0 && w.time(i)+w.length() > t; i-- {
			n, next = n+1, w.time(i)+w.length()
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
