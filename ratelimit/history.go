package ratelimit

import "math"

// stampBits bounds the ticks of the longest exact window, so that a stamp of 32 bits can lie well outside of it.
const stampBits = 30

// A history holds the times of the newest admissions, as many as an exact limit may need. Times are kept in four bytes, as
// ticks since a base that moves along: a tick is 1 ns for windows of up to a second and less than a thousand millionth of
// longer ones. Times are rounded up to a tick, which errs on the strict side.
type history struct {
	base   int64 // time of stamp 0
	tick   int64
	stamps []uint32 // a circle
	newest int      // index of the newest stamp
	n      int      // stamps in use
}

func newHistory(capacity int, tick, now int64) history {
	return history{base: now, tick: tick, stamps: make([]uint32, capacity)}
}

func (h *history) index(i int) int {
	if i = h.newest - i; i < 0 {
		i += len(h.stamps)
	}
	return i
}

// at returns the time of the i-th newest admission, from 0.
func (h *history) at(i int) int64 {
	return h.base + int64(h.stamps[h.index(i)])*h.tick
}

func (h *history) stamp(t int64) int64 { return (t - h.base + h.tick - 1) / h.tick }

// add records an admission, which is no older than any other.
func (h *history) add(t int64) {
	if len(h.stamps) == 0 {
		return
	}
	s := h.stamp(t)
	if s > math.MaxUint32 {
		h.move(t)
		s = h.stamp(t)
	}
	if h.newest++; h.newest == len(h.stamps) {
		h.newest = 0
	}
	h.stamps[h.newest] = uint32(s)
	h.n = min(h.n+1, len(h.stamps))
}

// move sets the base to two windows before t. What lies before that counts for nothing any more, and stays at the base.
func (h *history) move(t int64) {
	base := t - h.tick<<(stampBits+1)
	passed := (base - h.base) / h.tick
	h.base += passed * h.tick
	for i, s := range h.stamps {
		h.stamps[i] = uint32(max(0, int64(s)-passed))
	}
}

// clamp brings admissions that lie in the future, after the clock was set back, to now: the token waits a window at most.
func (h *history) clamp(now int64) {
	if now < h.base {
		h.base = now
	}
	s := h.stamp(now)
	for i := range h.n {
		if j := h.index(i); int64(h.stamps[j]) > s {
			h.stamps[j] = uint32(s)
		}
	}
}

// count returns how many admissions count at now in a window of length per.
func (h *history) count(now, per int64) int {
	for i := range h.n {
		if h.at(i)+per <= now {
			return i
		}
	}
	return h.n
}

// opens returns when at most k admissions count in a window of length per: 0 when that is so already.
func (h *history) opens(k int, per int64) int64 {
	if k >= h.n {
		return 0
	}
	return h.at(k) + per
}

// remove forgets the admission at t, if it is there.
func (h *history) remove(t int64) {
	s := h.stamp(t)
	for i := range h.n {
		if int64(h.stamps[h.index(i)]) != s {
			continue
		}
		for ; i < h.n-1; i++ { // older ones move up
			h.stamps[h.index(i)] = h.stamps[h.index(i+1)]
		}
		h.n--
		return
	}
}
