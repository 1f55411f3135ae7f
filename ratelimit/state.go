package ratelimit

import "time"

// numbered is for how many of a token's newest admissions it is known, in 16 bytes, whether they were given back: more than the
// specification's limits admit while a request is under way. An older one is given back on its caller's word to ask once.
const numbered = 128

// A state is what is remembered of one token. Times are nanoseconds of the store's clock, and are positive.
type state struct {
	layout *layout
	seen   int64                 // time that it was last asked at
	serial uint64                // of the newest admission; they go up by one
	first  uint64                // of the serials that can be given back: which were spent before is not known
	spent  [numbered / 64]uint64 // a bit for each of the newest serials: set until it is given back

	totals [MaxLimits]uint32 // of each ring
	reach  [MaxLimits]uint8  // how many buckets back in each ring there may be something

	known, newest uint8  // of the history: how many stamps, and where the newest is
	rest          uint32 // admissions older than those, which count as long as one at restStamp
	restStamp     uint32

	words []uint64
}

// newState returns the state of a token that has spent nothing. Serials begin with the time, so that those of a token that
// was forgotten do not come again.
func newState(l *layout, now int64) state {
	return stateIn(make([]uint64, l.words), l, now)
}

func stateIn(words []uint64, l *layout, now int64) state {
	serial := uint64(now)
	return state{layout: l, seen: now, serial: serial, first: serial + 1, words: words}
}

// judge brings the state to now and says whether its limits admit a request, without spending it.
func (s *state) judge(now int64) Decision {
	s.advance(now)
	d := Decision{Allowed: true, Denied: -1, Shadowed: -1}
	opens := now
	limits := s.layout.rules.limits
	for i := range limits {
		if at := s.opens(i, int64(limits[i].Requests)-1); at > opens {
			opens, d.Allowed, d.Denied = at, false, s.layout.rules.of[i]
		}
	}
	if !d.Allowed {
		d.RetryAfter = time.Duration(opens - now)
	}
	return d
}

// fillBudgets tells what is left of each of the state's limits.
func (s *state) fillBudgets(d *Decision) {
	limits := s.layout.rules.limits
	for i := range limits {
		d.Budgets[s.layout.rules.of[i]] = s.budget(i, int64(limits[i].Requests))
	}
}

func (s *state) budget(i int, requests int64) Budget {
	count := min(s.count(i), requests)
	if count == 0 {
		return Budget{Remaining: int(requests)}
	}
	return Budget{Remaining: int(requests - count), Reset: time.Duration(s.opens(i, count-1) - s.seen)}
}

// opens returns when at most k admissions count in the window of the i-th limit: 0, or a time that has passed, when that is
// so already.
func (s *state) opens(i int, k int64) int64 {
	if l := &s.layout.rules.limits[i]; l.exact() {
		return s.history().opens(k, int64(l.Per))
	}
	return s.ring(i).opens(k)
}

// count returns how many admissions count in the window of the i-th limit.
func (s *state) count(i int) int64 {
	if l := &s.layout.rules.limits[i]; l.exact() {
		return s.history().count(int64(l.Per))
	}
	return s.ring(i).total()
}

// spend records an admission at now.
func (s *state) spend(now int64) {
	s.serial++
	s.spent[s.serial/64%(numbered/64)] |= 1 << (s.serial % 64)
	s.add(now, 1)
}

// skipTo takes the serials up to one for those of admissions that were not spent here.
func (s *state) skipTo(serial uint64) {
	if serial > s.serial+numbered { // none of those that are known is among the newest any more
		s.serial, s.spent = serial, [numbered / 64]uint64{}
	}
	for ; s.serial < serial; s.serial++ {
		next := s.serial + 1
		s.spent[next/64%(numbered/64)] &^= 1 << (next % 64)
	}
}

// add records n admissions at now that have no serial of their own.
func (s *state) add(now, n int64) {
	for range min(n, MaxExact) {
		s.history().add(now)
	}
	for i := range s.layout.rules.limits {
		if !s.layout.rules.limits[i].exact() {
			s.ring(i).add(now, n)
		}
	}
}

// advance brings the state to now. A clock that was set back ends the time in which admissions can be given back: when they
// were is not known any more.
func (s *state) advance(now int64) {
	if now < s.seen {
		s.first, s.spent = s.serial+1, [numbered / 64]uint64{}
	}
	s.history().advance(now)
	for i := range s.layout.rules.limits {
		if !s.layout.rules.limits[i].exact() {
			s.ring(i).advance(now)
		}
	}
	s.seen = now
}

// empty says whether nothing counts any more.
func (s *state) empty() bool {
	return s.known == 0 && s.rest == 0 && s.totals == [MaxLimits]uint32{}
}

// refund gives back the admission with that serial, at t, unless that was done before.
func (s *state) refund(serial uint64, t int64) {
	if serial < s.first || serial > s.serial {
		return
	}
	if s.serial-serial < numbered { // else the history does not reach back to it
		if !s.isSpent(serial) {
			return
		}
		s.forget(serial)
	}
	for i := range s.layout.rules.limits {
		if !s.layout.rules.limits[i].exact() {
			s.ring(i).remove(t)
		}
	}
}

// forget takes one of the newest admissions out of the history.
func (s *state) forget(serial uint64) {
	newer := 0 // so many admissions of the history are newer
	for n := s.serial; n != serial; n-- {
		if s.isSpent(n) {
			newer++
		}
	}
	s.spent[serial/64%(numbered/64)] &^= 1 << (serial % 64)
	s.history().remove(newer)
}

// isSpent says whether the admission is one of the newest, and was not given back.
func (s *state) isSpent(serial uint64) bool {
	return s.serial-serial < numbered && s.spent[serial/64%(numbered/64)]>>(serial%64)&1 == 1
}
