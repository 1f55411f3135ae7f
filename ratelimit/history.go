package ratelimit

// Times of admissions are kept as stamps: numbers of ticks, of which only the low 32 bits are needed, as no stamp is kept for
// longer than a window, which is at most 2^30 ticks.
const (
	stampBits  = 32
	windowBits = 30
)

// A history is the times of a token's newest admissions, as many as an exact limit may need. A tick is 1 ns for windows of up
// to a second and less than a thousand millionth of longer ones. Times are rounded up to a tick, which errs on the strict
// side. It is a view of the state.
//
// After a change of policy, a token may have more admissions that count than there is room for. The rest of them are kept as
// one number, all taken to be as old as the youngest of them.
type history struct {
	s    *state
	tick int64
	span int64 // the longest window of an exact limit
}

func (s *state) history() history {
	return history{s: s, tick: s.layout.rules.tick, span: s.layout.rules.exactSpan}
}

// slot is where the i-th newest stamp is: they go round in a circle.
func (h history) slot(i int) int {
	slot := int(h.s.newest) - i
	if slot < 0 {
		slot += h.s.layout.capacity
	}
	return slot
}

// stamp is the number of the first tick that is not before t.
func (h history) stamp(t int64) uint32 { return uint32((t + h.tick - 1) / h.tick) }

// time tells the time of a stamp, which is at most one tick after the state's.
func (h history) time(stamp uint32) int64 {
	next := h.s.seen/h.tick + 1
	return (next - int64(uint32(next)-stamp)) * h.tick
}

// at returns the time of the i-th newest admission, from 0.
func (h history) at(i int) int64 {
	return h.time(uint32(h.s.layout.stamps.get(h.s.words, h.slot(i))))
}

func (h history) set(i int, t int64) {
	h.s.layout.stamps.set(h.s.words, h.slot(i), uint64(h.stamp(t)))
}

// add records an admission, which is no older than any other.
func (h history) add(t int64) {
	capacity := h.s.layout.capacity
	if capacity == 0 {
		return
	}
	if h.s.newest++; int(h.s.newest) >= capacity {
		h.s.newest = 0
	}
	h.s.known = uint8(min(int(h.s.known)+1, capacity))
	h.set(0, t)
}

// remove forgets the i-th newest admission, if it counts.
func (h history) remove(i int) {
	known := int(h.s.known)
	if i >= known {
		if i-known < int(h.s.rest) {
			h.s.rest--
		}
		return
	}
	for ; i < known-1; i++ { // older ones move up
		h.set(i, h.at(i+1))
	}
	h.s.known--
}

// advance drops what leaves the longest window as time goes on to now. Where the clock was set back, what lies in the future
// is brought to now: it counts for another window at most. The state's own time is still the old one.
func (h history) advance(now int64) {
	if now-h.s.seen >= h.span+h.tick { // no time is further ahead than a tick
		h.s.known, h.s.rest = 0, 0
		return
	}
	if h.s.rest > 0 && h.time(h.s.restStamp)+h.span <= now {
		h.s.rest = 0
	}
	for h.s.known > 0 && h.at(int(h.s.known)-1)+h.span <= now {
		h.s.known--
	}
	if now >= h.s.seen {
		return
	}
	for i := range int(h.s.known) {
		h.set(i, min(h.at(i), now))
	}
	if h.s.rest > 0 {
		h.s.restStamp = h.stamp(min(h.time(h.s.restStamp), now))
	}
}

// count returns how many admissions count in a window of length per.
func (h history) count(per int64) int64 {
	expired := h.s.seen - per
	if h.s.rest > 0 && h.time(h.s.restStamp) > expired {
		return int64(h.s.known) + int64(h.s.rest)
	}
	low, high := 0, int(h.s.known) // as many are the newest that count
	for low < high {
		if middle := (low + high) / 2; h.at(middle) > expired {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return int64(low)
}

// opens returns when at most k admissions count in a window of length per: 0, or a time that has passed, when that is so
// already.
func (h history) opens(k, per int64) int64 {
	switch known := int64(h.s.known); {
	case k < known:
		return h.at(int(k)) + per
	case k < known+int64(h.s.rest):
		return h.time(h.s.restStamp) + per
	}
	return 0
}
