package ratelimit

import (
	"cmp"
	"slices"
)

// A spending is n admissions that count as if all were at one time.
type spending struct {
	at, n int64
}

// rebased returns the state of the token under another policy, with all that is known to have been spent.
func (s *state) rebased(p *Policy, now int64) *state {
	s.advance(now)
	known := s.spendings()
	fresh := newState(p.layoutFor(known, now), now)
	for _, sp := range known {
		for i := range p.limits {
			if !p.limits[i].exact() {
				fresh.ring(i).add(sp.at, sp.n)
			}
		}
	}
	fresh.history().fill(known)
	fresh.serial = s.serial
	fresh.keepSpent(s, sum(known))
	return fresh
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

func (s *state) ringsByWidth() []ring {
	var rings []ring
	for i, l := range s.layout.policy.limits {
		if !l.exact() {
			rings = append(rings, s.ring(i))
		}
	}
	slices.SortFunc(rings, func(a, b ring) int { return cmp.Compare(a.width, b.width) })
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

// layoutFor returns the policy's layout, or one with more room where a token has spent more than the policy admits, as long as
// the state is not too large for it.
func (p *Policy) layoutFor(known []spending, now int64) *layout {
	if len(known) == 0 {
		return p.layout
	}
	var d demand
	for _, sp := range known {
		if sp.at+p.exactSpan > now {
			d.stamps = min(d.stamps+int(sp.n), MaxExact)
		}
		for i := range p.limits {
			if sp.at+buckets*p.widths[i] > now {
				d.counts[i] += sp.n
			}
		}
	}
	l := newLayout(p, d)
	if *l == *p.layout || l.bytes() > MaxStateBytes {
		return p.layout
	}
	return l
}

func sum(list []spending) (n int64) {
	for _, sp := range list {
		n += sp.n
	}
	return n
}
