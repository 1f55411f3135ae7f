package ratelimit

import (
	"slices"
	"time"
)

// DecideShare decides a request by a gateway's share of each limit, while the shared store is not
// in use. It admits a request if this is more than 0 for each limit that is not in shadow:
//
//	⌈(limit − last) ÷ gateways⌉ − own − sent
//
// last is the count in the last account of the shared store, as it ages; own and sent are the
// counts of the gateway's admissions that this account lacks, and sent has those that a call
// carries.
//
// It returns own with the admission, unless the request is denied or a peek. last and sent may be
// nil or of another policy, and are not modified. own may be nil, and may be modified; a new one
// has the windows of the last account too, so that its admissions can be added to them.
func (p *Policy) DecideShare(gateways int, last, own, sent Account, at time.Time, peek bool) (Account, Decision) {
	now := instant(at)
	if !own.valid() {
		own = last.emptied(now)
	}
	own, _ = own.advance(now)
	own, _ = p.prepareWindows(own, now)
	s := share{policy: p, gateways: int64(max(1, gateways)), last: p.windows(last, now), own: p.windows(own, now),
		sent: p.windows(sent, now)}
	d := Decision{Allowed: true, DeniedBy: -1, ShadowDeniedBy: -1, At: time.UnixMicro(now), Local: true}
	for i := range p.rules {
		remaining, _ := s.remaining(i, now)
		d.Allowed = d.Allowed && (p.rules[i].shadow || remaining > 0)
	}
	if d.Allowed && !peek {
		own = own.record(now)
		s.own = p.windows(own, now)
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

// emptied returns an account with the same windows and no admissions.
func (a Account) emptied(now int64) Account {
	empty := slices.Clone(a[:min(headerBytes, len(a))])
	for at := headerBytes; at < len(a); at += window(a[at:]).size() {
		w := window(a[at:])
		emptied := w.shape().newWindow(now)
		emptied.setLastUsed(w.lastUsed())
		empty = append(empty, emptied...)
	}
	return empty
}

// windows returns the account's window of each rule. One that the account lacks is filled from its
// others.
func (p *Policy) windows(a Account, now int64) (list [MaxLimits]window) {
	for i := range p.rules {
		s := p.rules[i].shape
		if list[i] = a.find(s); list[i] == nil {
			list[i] = a.copyWindow(s, now)
		}
	}
	return list
}

// A share has what [Policy.DecideShare] decides by: of each limit, the windows of three accounts.
type share struct {
	policy          *Policy
	gateways        int64
	last, own, sent [MaxLimits]window
}

// remaining returns what remains of a limit for this gateway at t, if nothing is admitted until
// then, and when the next admission expires.
func (s *share) remaining(i int, t int64) (n, next int64) {
	last, nextLast := s.last[i].usageAt(t)
	own, nextOwn := s.own[i].usageAt(t)
	sent, nextSent := s.sent[i].usageAt(t)
	return max(0, s.divide(s.policy.rules[i].requests-last)-own-sent), min(nextLast, nextOwn, nextSent)
}

// divide returns this gateway's part of a number of requests, rounded up.
func (s *share) divide(n int64) int64 { return (max(0, n) + s.gateways - 1) / s.gateways }

// budget returns what remains of a limit, and the time until more does. It goes from one expiry to
// the next, because several admissions may have to expire: the count in the last account is divided
// and rounded.
func (s *share) budget(i int, now int64) Budget {
	remaining, next := s.remaining(i, now)
	b := Budget{Remaining: int(remaining)}
	if remaining == s.divide(s.policy.rules[i].requests) { // the whole share: it cannot increase
		return b
	}
	for n := remaining; n <= remaining; {
		b.Reset = duration(next - now)
		n, next = s.remaining(i, next)
	}
	return b
}
