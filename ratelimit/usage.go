package ratelimit

import (
	"slices"
	"time"
)

// advance brings the account to now, in place: it drops admissions that left their window and, where the clock was set back, moves those in
// the future to now, so that they are counted for one window at most. Single admissions are kept for so many windows.
func (a Account) advance(rules []rule, now, windows int64) (_ Account, moved bool) {
	if a.since() > now {
		a.setSince(now)
		moved = true
	}
	at := statesAt(len(rules))
	for i := range rules {
		r := &rules[i]
		if a[at] >= ringTag {
			moved = newRing(r, a[at:]).advance(now) || moved
			at += stateBytes(a[at])
			continue
		}
		s := times(a[at:])
		n, gone := s.len(), 0
		for gone < n && s.at(gone)+r.per*windows <= now {
			gone++
		}
		for j := n - 1; j >= gone && s.at(j) > now; j-- {
			s.set(j, now)
			moved = true
		}
		if gone > 0 {
			s[0] -= byte(gone)
			a = append(a[:at+1], a[at+1+gone*timeBytes:]...)
		}
		at += 1 + (n-gone)*timeBytes
	}
	return a, moved
}

func (s ring) advance(now int64) (moved bool) {
	newest, present := s.newest(), now/s.width
	var future int64
	for b := max(present, newest-buckets) + 1; b <= newest; b++ {
		future += s.get(b)
		s.set(b, 0)
	}
	for b := max(newest, present-buckets) + 1; b <= present; b++ {
		s.set(b, 0)
	}
	s.setNewest(present)
	if future > 0 {
		s.set(present, s.get(present)+future)
	}
	return future > 0
}

// A tally is how many admissions count in a limit, and in how many µs there will be fewer than now and fewer than the limit admits.
type tally struct{ count, reset int64 }

func (r *rule) tally(state []byte, now int64) tally {
	if state[0] < ringTag {
		s := times(state)
		n := int64(s.len())
		if n == 0 {
			return tally{}
		}
		return tally{n, s.at(int(n-min(n, r.requests))) + r.per - now}
	}
	s := newRing(r, state)
	count := s.total()
	if count == 0 {
		return tally{}
	}
	b := s.oldest()
	for left := count - s.get(b); left >= r.requests; left -= s.get(b) {
		b++
	}
	return tally{count, s.expires(b) - now}
}

// expires is when a bucket leaves the window.
func (s ring) expires(b int64) int64 { return (b + buckets) * s.width }

type tallies [MaxLimits]tally

// tallies counts an account of the policy that was advanced to now.
func (p *Policy) tallies(a Account, now int64) (t tallies) {
	at := statesAt(len(p.rules))
	for i := range p.rules {
		t[i] = p.rules[i].tally(a[at:], now)
		at += stateBytes(a[at])
	}
	return t
}

// full returns the limit that keeps a request out longest, of those in shadow or of those that are enforced; -1 where all have room.
func (p *Policy) full(t *tallies, shadow bool) int {
	longest := -1
	for i := range p.rules {
		r := &p.rules[i]
		if r.shadow == shadow && t[i].count >= r.requests && (longest < 0 || t[i].reset > t[longest].reset) {
			longest = i
		}
	}
	return longest
}

// decide decides a request at now, and returns the account with its admission, unless it is denied or a peek. The account must be
// one of the policy that was advanced to now.
func (p *Policy) decide(a Account, now int64, peek bool) (Account, Decision) {
	t := p.tallies(a, now)
	denied, shadowed := p.full(&t, false), -1
	if denied < 0 {
		shadowed = p.full(&t, true)
		if !peek {
			a = p.add(a, now, shadowed < 0, &t)
		}
	}
	return a, p.decision(&t, now, denied, shadowed)
}

// add records an admission at now, and counts it. Limits in shadow are left out where one of them is full.
func (p *Policy) add(a Account, now int64, inShadow bool, t *tallies) Account {
	at := statesAt(len(p.rules))
	for i := range p.rules {
		r := &p.rules[i]
		if !r.shadow || inShadow {
			before := a[at]
			a = r.add(a, at, now)
			if t[i].count++; t[i].count == 1 || a[at] < before {
				t[i] = r.tally(a[at:], now)
			}
		}
		at += stateBytes(a[at])
	}
	return a
}

// add records an admission at t, no earlier than any other, in the state that begins at a byte of the account.
func (r *rule) add(a Account, at int, t int64) Account {
	if a[at] >= ringTag {
		s := newRing(r, a[at:])
		if !r.exact() {
			s.add(t, 1)
			return a
		}
		// Less counts than the limit admits: it is decided by single admissions again.
		state := r.encode(append(usage{r, a[at : at+stateBytes(a[at])]}.buckets(), bucket{t, t, 1}), t)
		return slices.Replace(a, at, at+stateBytes(a[at]), state...)
	}
	end := at + stateBytes(a[at])
	var added [timeBytes]byte
	putTime(added[:], t)
	a[at]++
	return slices.Insert(a, end, added[:]...)
}

func (p *Policy) decision(t *tallies, now int64, denied, shadowed int) Decision {
	d := Decision{Allowed: denied < 0, Denied: denied, Shadowed: shadowed, At: time.UnixMicro(now)}
	if denied >= 0 {
		d.RetryAfter = duration(t[denied].reset)
	}
	for i := range p.rules {
		d.Budgets[i] = Budget{Remaining: int(max(0, p.rules[i].requests-t[i].count)), Reset: duration(t[i].reset)}
	}
	return d
}

func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
