package ratelimit

import (
	"math"
	"slices"
	"time"
)

// An Outcome is the decision of a shared store on a request.
type Outcome int

// The outcomes.
const (
	Denied   Outcome = iota
	Admitted         // recorded in every limit
	Shadowed         // admitted and recorded in the enforced limits alone, as a limit in shadow would have denied it
	Peeked           // none: the request was a peek
)

// An Op is an operation of a shared store on a token's account.
type Op int

// The operations.
const (
	OpDecide Op = iota // merge the upload, decide, and record the admission
	OpPeek             // decide, and record nothing
	OpMerge            // merge the upload
)

// An Exchange is a call to a shared store: an operation, and an upload of two accounts. An account may be nil; else it is of the policy of
// the call.
type Exchange struct {
	Op    Op
	Known Account // the last account that the store returned, as the store may have lost it; merged by union
	Own   Account // admissions of the gateway itself: added
}

// instant returns a time as accounts encode it.
func instant(at time.Time) int64 { return max(earliest, at.UnixMicro()) }

// Header returns the header of accounts of the policy. It must not be modified.
func (p *Policy) Header() []byte { return p.header }

// Decision returns the decision on a request, from the account of the policy after it and the outcome, and reports whether the account is
// of the policy and agrees with the outcome. It modifies the account.
func (p *Policy) Decision(a Account, at time.Time, o Outcome) (Decision, bool) {
	now := instant(at)
	if !p.valid(a) {
		return Decision{}, false
	}
	a, _ = a.advance(p.rules, now, 1)
	t := p.tallies(a, now)
	denied, shadowed := p.full(&t, false), -1
	switch {
	case o == Peeked && denied < 0, o == Shadowed:
		denied, shadowed = -1, p.full(&t, true)
	case o == Admitted:
		denied = -1
	case denied < 0:
		return Decision{}, false
	}
	return p.decision(&t, now, denied, shadowed), true
}

// Exchange executes a call of a shared store on the stored account of a token, which may be nil or of another policy. It is the reference
// for redisstore's script, and the shared store of tests. It returns the account after the call, whether the store writes it, and the
// decision; for [OpMerge], the decision is that of a peek.
func (p *Policy) Exchange(stored Account, x Exchange, at time.Time) (a Account, write bool, d Decision) {
	now := instant(at)
	if p.valid(stored) {
		a, write = slices.Clone(stored).advance(p.rules, now, 1)
	} else {
		_, write = stored.rules()
		a = p.newAccount(stored, now)
	}
	for i, uploaded := range []Account{x.Known, x.Own} {
		if len(uploaded) > 0 {
			a, write = p.Merge(a, uploaded, i == 0, at), true
		}
	}
	a, d = p.decide(a, now, x.Op != OpDecide)
	return a, x.Op != OpPeek && (write || x.Op == OpDecide && d.Allowed), d
}

// Merge returns an account of the policy with the usage of two accounts, which may be of other policies and are not modified. With union,
// admissions in both accounts count once: of the counts of a bucket, the larger one applies. Else counts are added.
func (p *Policy) Merge(a, b Account, union bool, at time.Time) Account {
	now := instant(at)
	a, b = p.convert(a, now), p.convert(b, now)
	merged := p.prefix(min(a.since(), b.since()))
	as, bs := a.usages(p.rules), b.usages(p.rules)
	for i := range p.rules {
		merged = append(merged, p.rules[i].encode(merge(as[i].buckets(), bs[i].buckets(), union), now)...)
	}
	return merged
}

// A Share is the usage by which DecideShare computes the share of a gateway. The accounts may be nil or of other policies, and are not
// modified.
type Share struct {
	Replicas int     // gateways that divide the limits; at least 1
	Shared   Account // the last one of the shared store
	Sent     Account // admissions of this gateway that it has uploaded since
}

// DecideShare decides a request by a gateway's share of each limit, while the shared store is not in use. The share is what remains of the
// limit in the shared account, divided by the number of gateways and rounded up. Rounding up admits more than a small limit: of a limit of
// 1, each of three gateways would admit 1 per window. So a gateway also admits no more than one whole limit in a period of Replicas
// windows.
//
// It returns own with the admission, unless the request is denied or a peek. Limits in shadow do not decide, and record no more than they
// allow. own may be nil or of another policy, and may be modified.
func (p *Policy) DecideShare(from Share, own Account, at time.Time, peek bool) (Account, Decision) {
	now := instant(at)
	s := shareState{policy: p, replicas: int64(max(1, from.Replicas)), shared: p.usages(from.Shared, now), sent: p.usages(from.Sent, now)}
	if !p.valid(own) {
		own = p.newAccount(own, now)
	}
	own, _ = own.advance(p.rules, now, s.replicas)
	s.own = p.usages(own, now)
	d := Decision{Allowed: true, DeniedBy: -1, ShadowDeniedBy: -1, At: at.Truncate(time.Microsecond), Local: true}
	for i := range p.rules {
		d.Allowed = d.Allowed && (p.rules[i].shadow || s.remaining(i, now) > 0)
	}
	if d.Allowed && !peek {
		t := p.tallies(own, now)
		own = p.add(own, now, p.full(&t, true) < 0, &t)
		s.own = p.usages(own, now)
	}
	for i := range p.rules {
		b := s.budget(i, now)
		d.Budgets[i] = b
		if !d.Allowed && !p.rules[i].shadow && b.Remaining == 0 && b.Reset > d.RetryAfter {
			d.DeniedBy, d.RetryAfter = i, b.Reset
		}
	}
	return own, d
}

// usages returns the states of an account under the policy; zero for a nil account.
func (p *Policy) usages(a Account, now int64) (list [MaxLimits]usage) {
	if len(a) == 0 {
		return list
	}
	if !p.valid(a) {
		a = p.newAccount(a, now)
	}
	return a.usages(p.rules)
}

// A shareState is the usage from which the admissions of one gateway are computed.
type shareState struct {
	policy            *Policy
	replicas          int64
	shared, sent, own [MaxLimits]usage
}

// remaining returns what remains of a limit at t, if nothing is admitted until then.
func (s *shareState) remaining(i int, t int64) int64 {
	r := &s.policy.rules[i]
	longTerm := int64(math.MaxInt64) // what remains of the whole limit in a period of replicas windows
	if s.replicas > 1 && r.exact() {
		longTerm = r.requests - s.sent[i].count(t, s.replicas) - s.own[i].count(t, s.replicas)
	}
	return max(0, min(longTerm, s.divide(r, s.shared[i].count(t, 1))-s.sent[i].count(t, 1)-s.own[i].count(t, 1)))
}

// divide returns this gateway's share of what remains of a limit.
func (s *shareState) divide(r *rule, used int64) int64 {
	return (max(0, r.requests-used) + s.replicas - 1) / s.replicas
}

// count returns the number of admissions in the given number of windows before t.
func (u usage) count(t, windows int64) (n int64) {
	if len(u.state) == 0 {
		return 0
	}
	if u.state[0] < ringTag {
		s := timestamps(u.state)
		for i := s.len() - 1; i >= 0 && s.at(i)+u.per*windows > t; i-- {
			n++
		}
		return n
	}
	s := newRing(u.rule, u.state)
	newest, oldest := s.newest(), t/u.width-numBuckets+1
	if oldest <= newest-numBuckets+1 {
		return s.total()
	}
	for b := oldest; b <= newest; b++ {
		n += s.get(b)
	}
	return n
}

// next returns the earliest time after t at which an admission leaves the given number of windows; MaxInt64 if there is none.
func (u usage) next(t, windows int64) int64 {
	if len(u.state) == 0 {
		return math.MaxInt64
	}
	if u.state[0] < ringTag {
		s := timestamps(u.state)
		for i := range s.len() {
			if expiry := s.at(i) + u.per*windows; expiry > t {
				return expiry
			}
		}
		return math.MaxInt64
	}
	s := newRing(u.rule, u.state)
	for b := max(s.newest(), t/u.width) - numBuckets + 1; b <= s.newest(); b++ {
		if s.get(b) > 0 && s.expires(b) > t {
			return s.expires(b)
		}
	}
	return math.MaxInt64
}

func (s *shareState) budget(i int, now int64) Budget {
	remaining := s.remaining(i, now)
	b := Budget{Remaining: int(remaining)}
	if remaining == s.divide(&s.policy.rules[i], 0) {
		return b
	}
	t := now
	for s.remaining(i, t) <= remaining {
		next := min(s.shared[i].next(t, 1), s.sent[i].next(t, 1), s.own[i].next(t, 1))
		if s.replicas > 1 && s.policy.rules[i].exact() {
			next = min(next, s.sent[i].next(t, s.replicas), s.own[i].next(t, s.replicas))
		}
		t = next
	}
	b.Reset = duration(t - now)
	return b
}

// Unused reports whether the account has no admission in the given number of windows before a time.
func (a Account) Unused(at time.Time, windows int) bool {
	rules, ok := a.rules()
	return !ok || a.unused(rules, instant(at), int64(windows))
}

func (a Account) unused(rules []rule, t, windows int64) bool {
	states := a.usages(rules)
	return !slices.ContainsFunc(states[:len(rules)], func(u usage) bool { return u.count(t, windows) > 0 })
}
