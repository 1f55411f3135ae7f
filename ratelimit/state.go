package ratelimit

import (
	"slices"
	"time"
)

// A state is what is remembered of one token. Times are nanoseconds of the store's clock, and are positive.
type state struct {
	policy *Policy // that it is laid out for
	spent  int64   // time of the last admission
	seen   int64   // latest time that it was asked at
	known  int64   // time since when every admission that may count is in it
	log    history
	rings  []ring // one for each limit that is not exact, in the policy's order
}

func newState(p *Policy, now int64) *state {
	s := &state{policy: p, seen: now, log: newHistory(p.log, p.tick, now)}
	for _, l := range p.limits {
		if !l.exact() {
			s.rings = append(s.rings, newRing(l.width(), now))
		}
	}
	return s
}

// decide admits a request at now and spends it, or refuses it.
func (s *state) decide(now int64) Decision {
	s.advance(now)
	d := Decision{Allowed: true, Denied: -1}
	opens := now
	s.each(func(i int, l Limit, r *ring) {
		if at := s.opens(l, r, l.Requests-1); at > opens {
			opens, d.Allowed, d.Denied = at, false, i
		}
	})
	if d.Allowed {
		s.spend(now)
	} else {
		d.RetryAfter = time.Duration(opens - now)
	}
	s.each(func(i int, l Limit, r *ring) {
		left := max(0, l.Requests-s.count(l, r, now))
		d.Budgets[i] = Budget{Remaining: left, Reset: time.Duration(max(0, s.opens(l, r, l.Requests-left-1)-now))}
	})
	return d
}

// each calls f for every limit, with its ring where it has one.
func (s *state) each(f func(i int, l Limit, r *ring)) {
	next := 0
	for i, l := range s.policy.limits {
		if l.exact() {
			f(i, l, nil)
			continue
		}
		f(i, l, &s.rings[next])
		next++
	}
}

// opens returns when at most k admissions count in the limit's window: 0, or a time that has passed, when that is so already.
func (s *state) opens(l Limit, r *ring, k int) int64 {
	switch {
	case k < 0: // nothing was spent
		return 0
	case r == nil:
		return s.log.opens(k, int64(l.Per))
	}
	return r.opens(int64(k))
}

func (s *state) count(l Limit, r *ring, now int64) int {
	if r == nil {
		return s.log.count(now, int64(l.Per))
	}
	return int(r.total)
}

func (s *state) spend(now int64) {
	s.spent = now
	s.log.add(now)
	for i := range s.rings {
		s.rings[i].add(now, 1)
	}
}

// refund gives back the admission at t. One that a change of policy left behind was not spent here: giving it back would give
// away another's.
func (s *state) refund(t int64) {
	if t < s.known {
		return
	}
	s.log.remove(t)
	for i := range s.rings {
		s.rings[i].remove(t)
	}
}

// advance brings the state to now, which may be before the last now: then what lies in the future is brought back.
func (s *state) advance(now int64) {
	if now < s.seen {
		s.log.clamp(now)
		s.spent = min(s.spent, now)
	}
	s.seen = now
	for i := range s.rings {
		s.rings[i].advance(now)
	}
}

// resting says whether nothing of the state counts any more.
func (s *state) resting(now int64) bool { return s.spent+s.policy.rest <= now }

// A spending is n admissions at one time.
type spending struct {
	at int64
	n  uint32
}

// rebased returns the state laid out for another policy, with all that is known to have been spent. Where only a bucket
// knows of an admission, it is taken to be the bucket's last instant: counted too long rather than too short.
func (s *state) rebased(p *Policy, now int64) *state {
	s.advance(now)
	spendings := s.spendings(now)
	fresh := newState(p, now)
	fresh.spent = s.spent
	fresh.known = max(s.known, now-s.policy.longest)
	if p.log > 0 {
		// More may count than the new limits admit, and must be known if they rise again.
		live := 0
		for _, sp := range spendings {
			if sp.at+p.rest > now {
				live += int(sp.n)
			}
		}
		fresh.log = newHistory(min(MaxExact, max(p.log, live)), p.tick, now-p.tick<<stampBits)
	}
	for _, sp := range spendings {
		if sp.at+p.rest <= now {
			continue
		}
		for range min(int(sp.n), len(fresh.log.stamps)) {
			fresh.log.add(max(sp.at, fresh.log.base))
		}
		for i := range fresh.rings {
			fresh.rings[i].add(sp.at, sp.n)
		}
	}
	return fresh
}

// spendings returns what is known of the past, oldest first: the times in the log, and of each ring, finest first, what is
// not known from elsewhere.
func (s *state) spendings(now int64) []spending {
	var known []spending
	for i := range s.log.n {
		known = append(known, spending{min(s.log.at(i), now), 1})
	}
	rings := slices.Clone(s.rings)
	slices.SortFunc(rings, func(a, b ring) int { return int(a.width - b.width) })
	for _, r := range rings {
		for b := r.newest - buckets + 1; b <= r.newest; b++ {
			rest := int64(r.counts[b%buckets])
			for _, k := range known {
				if k.at/r.width == b {
					rest -= int64(k.n)
				}
			}
			if rest > 0 {
				known = append(known, spending{min((b+1)*r.width-1, now), uint32(rest)})
			}
		}
	}
	slices.SortFunc(known, func(a, b spending) int { return int(a.at - b.at) })
	return known
}
