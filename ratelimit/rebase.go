package ratelimit

// A spending is n admissions that count as if all were at one time.
type spending struct {
	at, n int64
}

// relaid returns the state of the token under other rules, with what is known to have been spent, newest first.
func (s *state) relaid(r *rules, known []spending, now int64) state {
	fresh := filledState(r, known, now)
	fresh.serial = s.serial
	fresh.keepSpent(s, sum(known))
	return fresh
}

// filledState returns the state of a token of which that is known, newest first.
func filledState(r *rules, known []spending, now int64) state {
	s := newState(r.layoutFor(known, now), now)
	for _, sp := range known {
		for i := range r.limits {
			if !r.limits[i].exact() {
				s.ring(i).add(sp.at, sp.n)
			}
		}
	}
	s.history().fill(known)
	return s
}

// keepSpent takes over which of the newest admissions were not given back yet: as many as are still known.
func (s *state) keepSpent(old *state, known int64) {
	s.first = max(old.first, old.serial+1-uint64(known))
	for n := old.serial; known > 0 && old.serial-n < numbered; n-- {
		if old.isSpent(n) {
			s.spent[n/64%(numbered/64)] |= 1 << (n % 64)
			known--
		}
	}
}

// spendings returns what is known of the past, newest first. The history knows the newest admissions best; after it, each
// ring, the finest first, adds those that are older than all that are known. Where only a bucket knows of an admission, it is
// taken to be at the bucket's last instant: counted too long rather than too short.
func (s *state) spendings() []spending {
	var known []spending
	at := s.seen
	note := func(t, n int64) {
		if at = min(at, t); n > 0 {
			known = append(known, spending{at, n})
		}
	}
	older := func(t int64) { at = min(at, t) } // what is not known by now was before t
	h := s.history()
	for i := range int(s.known) {
		note(h.at(i), 1)
	}
	if s.rest > 0 {
		note(h.time(s.restStamp), int64(s.rest))
	}
	older(s.seen - h.span)
	for _, r := range s.ringsByWidth() {
		newer := sum(known)
		for b := r.newest; b >= r.oldest(); b-- {
			n := r.get(b)
			both := min(newer, n)
			newer -= both
			note((b+1)*r.width-1, n-both)
		}
		older((r.newest-buckets+1)*r.width - 1)
	}
	return known
}

// horizon is the time up to which the state may have forgotten what was spent.
func (s *state) horizon() int64 {
	at := s.seen - s.history().span
	for _, r := range s.ringsByWidth() {
		at = min(at, (r.newest-buckets+1)*r.width-1)
	}
	return at
}

// ringsByWidth returns the rings, the finest first.
func (s *state) ringsByWidth() []ring {
	var rings []ring
	for _, i := range s.layout.rules.byPer {
		if !s.layout.rules.limits[i].exact() {
			rings = append(rings, s.ring(i))
		}
	}
	return rings
}

// fill makes an empty history of what is known, newest first.
func (h history) fill(known []spending) {
	capacity := int64(h.s.layout.capacity)
	for _, sp := range known {
		if capacity == 0 || sp.at+h.span <= h.s.seen {
			return
		}
		single := min(sp.n, capacity-int64(h.s.known))
		for range single {
			h.s.known++ // the newest is at 0, and older ones before it in the circle
			h.set(int(h.s.known)-1, sp.at)
		}
		if single < sp.n && h.s.rest == 0 {
			h.s.restStamp = h.stamp(sp.at)
		}
		h.s.rest += uint32(sp.n - single)
	}
}

// layoutFor returns the layout of the rules, or one with more room where a token has spent more than they admit, as long as the
// state is not too large for it.
func (r *rules) layoutFor(known []spending, now int64) *layout {
	if len(known) == 0 {
		return r.layout
	}
	var d demand
	for _, sp := range known {
		if sp.at+r.exactSpan > now {
			d.stamps = min(d.stamps+int(sp.n), MaxExact)
		}
		for i := range r.limits {
			if sp.at+buckets*r.widths[i] > now {
				d.counts[i] += sp.n
			}
		}
	}
	l := newLayout(r, d)
	if *l == *r.layout || l.bytes() > r.room {
		return r.layout
	}
	return l
}

func sum(list []spending) (n int64) {
	for _, sp := range list {
		n += sp.n
	}
	return n
}
