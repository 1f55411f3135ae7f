package ratelimit

import (
	"errors"
	"slices"
	"time"
)

// An Outcome is the decision of a shared store on a request.
type Outcome int

// The outcomes.
const (
	Denied   Outcome = iota
	Admitted         // recorded in every window
	Peeked           // no decision was recorded: the operation was a peek or a merge
)

// An Op is an operation of a shared store on a token's account.
type Op int

// The operations.
const (
	OpDecide Op = iota // merge the upload, decide, and record the admission
	OpPeek             // merge the upload and decide, but write nothing
	OpMerge            // merge the upload
)

// An Exchange is a call to a shared store: an operation, and an upload of two accounts, which may be nil.
type Exchange struct {
	Op       Op
	LastSeen Account // merged by union: the last account that the store returned, in case the store has lost it
	Own      Account // merged by sum: admissions of the gateway itself
}

// Errors that are wrapped in those of calls of a shared store.
var (
	// ErrNotSent: the store has not received the call.
	ErrNotSent = errors.New("not sent")
	// ErrOtherCalls: another call of the batch or an earlier one failed, or the call waited too long for earlier ones. That is no further
	// failure of the store.
	ErrOtherCalls = errors.New("failed with other calls")
)

// instant returns a time as accounts encode it.
func instant(at time.Time) int64 { return max(earliest, at.UnixMicro()) }

// Decision computes the decision on a request from its outcome and from the account after it. It returns the account too, advanced to the
// time, and reports false if the account is not valid, lacks a window of the policy, or contradicts the outcome. It may modify the account
// passed.
func (p *Policy) Decision(a Account, at time.Time, o Outcome) (Account, Decision, bool) {
	now := instant(at)
	if !a.valid() {
		return nil, Decision{}, false
	}
	a, _ = a.advance(now, OneLength)
	if !p.hasWindowsUsedSince(a, anyTime) {
		return nil, Decision{}, false
	}
	d := p.decision(a, now, o == Admitted)
	contradicted := o == Denied && d.Allowed
	return a, d, !contradicted
}

// ExecuteExchange executes a call to a shared store on the stored account of a token, which may be nil. It is the reference for the script
// of redisstore, and the shared store of tests. It returns the account after the call, whether the store writes it, and the decision; for
// [OpMerge], the decision is that of a peek.
func (p *Policy) ExecuteExchange(stored Account, x Exchange, at time.Time) (a Account, write bool, d Decision) {
	now := instant(at)
	if stored.valid() {
		a, write = slices.Clone(stored).advance(now, OneLength)
	}
	if len(x.LastSeen) > 0 {
		a, write = Union(a, x.LastSeen, at), true
	}
	if len(x.Own) > 0 {
		a, write = Sum(a, x.Own, OneLength, at), true
	}
	a, changed := p.prepareWindows(a, now, OneLength)
	a, d = p.decide(a, now, x.Op != OpDecide)
	recorded := x.Op == OpDecide && d.Allowed
	return a, x.Op != OpPeek && (write || changed || recorded), d
}

// Refund removes one admission with the given time from each window that has one, in place, and returns the account.
func (a Account) Refund(at time.Time) Account {
	if !a.valid() {
		return a
	}
	for i := headerBytes; i < len(a); i += window(a[i:]).size() {
		a = a.remove(i, instant(at))
	}
	return a
}

// A ShareInput is what DecideShare computes a gateway's share from. The accounts may be nil or of other policies, and are not modified.
type ShareInput struct {
	Gateways int     // that divide the limits; at least 1
	Shared   Account // the last one of the shared store
	Sent     Account // this gateway's admissions that Shared may lack: of calls that the shared store may have executed, or may execute later
}

// DecideShare decides a request by a gateway's share of each limit, while the shared store is not in use: what remains of the limit in the
// shared account, divided by the number of gateways and rounded up. As rounding up would admit more than a small limit, of one of up to
// [MaxExact] a gateway also admits no more than the whole limit in Gateways × Per.
//
// It returns own with the admission, unless the request is denied or a peek. Limits in shadow do not decide. own may be nil, and may be
// modified; a new one has the windows of the shared account too, so that its admissions can be added to them.
func (p *Policy) DecideShare(in ShareInput, own Account, at time.Time, peek bool) (Account, Decision) {
	now := instant(at)
	s := shareState{policy: p, gateways: int64(max(1, in.Gateways)), shared: p.windows(in.Shared, now, OneLength)}
	s.sent = p.windows(in.Sent, now, s.gateways)
	if !own.valid() {
		own = in.Shared.emptied(now)
	}
	own, _ = own.advance(now, s.gateways)
	own, _ = p.prepareWindows(own, now, s.gateways)
	s.own = p.windows(own, now, s.gateways)
	d := Decision{Allowed: true, DeniedBy: -1, ShadowDeniedBy: -1, At: at.Truncate(time.Microsecond), Local: true}
	for i := range p.rules {
		remaining, _ := s.remaining(i, now)
		d.Allowed = d.Allowed && (p.rules[i].shadow || remaining > 0)
	}
	if d.Allowed && !peek {
		own = own.record(now)
		s.own = p.windows(own, now, s.gateways)
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

// windows returns the account's window of each rule; nil windows for a nil account. If the account lacks one, it is added to a
// copy, which keeps times for the given number of lengths.
func (p *Policy) windows(a Account, now, lengths int64) (list [MaxLimits]window) {
	if len(a) == 0 {
		return list
	}
	if !p.hasWindowsUsedSince(a, anyTime) {
		a, _ = p.prepareWindows(a.advancedCopy(now, lengths), now, lengths)
	}
	for i := range p.rules {
		list[i] = a.find(p.rules[i].shape)
	}
	return list
}

// A shareState is the accounts' windows of the policy, by limit, from which a gateway's share is computed.
type shareState struct {
	policy            *Policy
	gateways          int64
	shared, sent, own [MaxLimits]window
}

// remaining returns what remains of a limit for this gateway at t, if nothing is admitted until then, and when the next admission expires.
func (s *shareState) remaining(i int, t int64) (n, next int64) {
	r := &s.policy.rules[i]
	shared, nextShared := s.shared[i].usageAt(t, OneLength)
	local, nextLocal := s.local(i, t, OneLength)
	n, next = s.divide(r.requests-shared)-local, min(nextShared, nextLocal)
	if s.gateways > 1 && r.exact { // above MaxExact, rounding up adds little: less than 1 for each gateway
		local, nextLocal = s.local(i, t, s.gateways)
		n, next = min(n, r.requests-local), min(next, nextLocal)
	}
	return max(0, n), next
}

// local returns the number of admissions of this gateway at t, and when the next one expires.
func (s *shareState) local(i int, t, lengths int64) (n, next int64) {
	sent, nextSent := s.sent[i].usageAt(t, lengths)
	own, nextOwn := s.own[i].usageAt(t, lengths)
	return sent + own, min(nextSent, nextOwn)
}

// divide returns this gateway's share of a number of requests, rounded up.
func (s *shareState) divide(n int64) int64 { return (max(0, n) + s.gateways - 1) / s.gateways }

// budget returns what remains of a limit, and the time until more does. It goes from one expiry to the next, because several admissions may
// have to expire: the shared usage is divided and rounded.
func (s *shareState) budget(i int, now int64) Budget {
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

// Unused reports whether no admission of the account counts at a time. Times count for the given number of lengths, buckets for one.
func (a Account) Unused(at time.Time, lengths int) bool {
	if !a.valid() {
		return true
	}
	for i := headerBytes; i < len(a); i += window(a[i:]).size() {
		if n, _ := window(a[i:]).usageAt(instant(at), int64(lengths)); n > 0 {
			return false
		}
	}
	return true
}
