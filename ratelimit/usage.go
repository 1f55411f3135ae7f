package ratelimit

import (
	"slices"
	"time"
)

// advance brings the account to now, in place. It drops admissions that have left their window, and moves admissions in the future to now:
// if the clock was set back, they count for one window at most. Timestamps are kept for the given number of windows. moved reports whether
// an admission or the account's since was moved.
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
		s := timestamps(a[at:])
		n, expired := s.len(), 0
		for expired < n && s.at(expired)+r.per*windows <= now {
			expired++
		}
		for j := n - 1; j >= expired && s.at(j) > now; j-- {
			s.set(j, now)
			moved = true
		}
		if expired > 0 {
			s[0] -= byte(expired)
			a = append(a[:at+1], a[at+1+expired*timeBytes:]...)
		}
		at += 1 + (n-expired)*timeBytes
	}
	return a, moved
}

func (s ring) advance(now int64) (moved bool) {
	newest, present := s.newest(), now/s.width
	var future int64
	for b := max(present, newest-numBuckets) + 1; b <= newest; b++ {
		future += s.get(b)
		s.set(b, 0)
	}
	for b := max(newest, present-numBuckets) + 1; b <= present; b++ {
		s.set(b, 0)
	}
	s.setNewest(present)
	if future > 0 {
		s.set(present, s.get(present)+future)
	}
	return future > 0
}

// A tally is the number of admissions that count in a limit, and the µs until that number falls, or, in a full limit, until the limit
// admits a request.
type tally struct{ count, reset int64 }

func (r *rule) tally(state []byte, now int64) tally {
	if state[0] < ringTag {
		s := timestamps(state)
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

// expires returns the time at which a bucket leaves the window.
func (s ring) expires(b int64) int64 { return (b + numBuckets) * s.width }

type tallies [MaxLimits]tally

// tallies returns the tallies of an account of the policy. It must be advanced to now.
func (p *Policy) tallies(a Account, now int64) (t tallies) {
	at := statesAt(len(p.rules))
	for i := range p.rules {
		t[i] = p.rules[i].tally(a[at:], now)
		at += stateBytes(a[at])
	}
	return t
}

// full returns the index of the full limit with the longest wait, among the limits in shadow or among the enforced ones; -1 if none is
// full.
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

// decide decides a request at now. It returns the account with the admission, unless the request is denied or a peek. The account must be
// of the policy and advanced to now.
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

// add records an admission at now and counts it in t. inShadow reports whether limits in shadow record it.
func (p *Policy) add(a Account, now int64, inShadow bool, t *tallies) Account {
	at := statesAt(len(p.rules))
	for i := range p.rules {
		r := &p.rules[i]
		if !r.shadow || inShadow {
			before := a[at]
			a = r.add(a, at, now)
			if t[i].count++; t[i].count == 1 || a[at] < before { // the first admission, or a ring became timestamps
				t[i] = r.tally(a[at:], now)
			}
		}
		at += stateBytes(a[at])
	}
	return a
}

// add records an admission at t in the state at an offset of the account. No admission in it may be later.
func (r *rule) add(a Account, at int, t int64) Account {
	if a[at] >= ringTag {
		s := newRing(r, a[at:])
		if !r.exact() {
			s.add(t, 1)
			return a
		}
		// The limit was lowered and is no longer full: its state becomes timestamps again.
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
	d := Decision{Allowed: denied < 0, DeniedBy: denied, ShadowDeniedBy: shadowed, At: time.UnixMicro(now)}
	if denied >= 0 {
		d.RetryAfter = duration(t[denied].reset)
	}
	for i := range p.rules {
		d.Budgets[i] = Budget{Remaining: int(max(0, p.rules[i].requests-t[i].count)), Reset: duration(t[i].reset)}
	}
	return d
}

func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
