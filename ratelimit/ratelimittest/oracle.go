package ratelimittest

import (
	"slices"
	"time"

	"opsgate/ratelimit"
)

// An oracle keeps every admission of one token. It is simple rather than fast.
type oracle struct {
	enforced ledger
	shadow   ledger
	// tolerantUntil is the time until which a store may deny more than the oracle, after a change of policy or of the clock.
	tolerantUntil time.Time
	policy        *ratelimit.Policy
}

// A ledger is the admissions of the enforced limits, or of the limits in shadow.
type ledger struct {
	admitted []time.Time
	// since is the time from which on a store has every admission. A change of policy drops those before the longest old window.
	since time.Time
}

// count returns the admissions that count at now in a window of length per.
func (l *ledger) count(now time.Time, per time.Duration) int {
	n := 0
	for _, at := range l.admitted {
		if at.Add(per).After(now) && !at.Before(l.since) {
			n++
		}
	}
	return n
}

func (l *ledger) refund(at time.Time) {
	if i := slices.IndexFunc(l.admitted, at.Equal); i >= 0 {
		l.admitted = slices.Delete(l.admitted, i, i+1)
	}
}

// drop drops admissions before a window that ends now.
func (l *ledger) drop(now time.Time, window time.Duration) {
	if start := now.Add(1 - window); start.After(l.since) {
		l.since = start
	}
}

func (l *ledger) rewind(step time.Duration) {
	for i, at := range l.admitted {
		l.admitted[i] = at.Add(-step)
	}
	l.since = l.since.Add(-step)
}

func (o *oracle) refund(d ratelimit.Decision) {
	o.enforced.refund(d.At)
	if d.ShadowDeniedBy < 0 {
		o.shadow.refund(d.At)
	}
}

// reset drops everything.
func (o *oracle) reset() { *o = oracle{policy: o.policy} }

// rewind sets the clock back, and moves all admissions back by the same step. A store counts its admissions for longer, and may deny more
// than the oracle until they have expired.
func (o *oracle) rewind(step time.Duration, now time.Time) {
	o.enforced.rewind(step)
	o.shadow.rewind(step)
	if until := now.Add(step + 2*time.Minute); until.After(o.tolerantUntil) {
		o.tolerantUntil = until
	}
}

// change changes the policy. New limits in shadow start with the admissions of the enforced limits.
func (o *oracle) change(p *ratelimit.Policy, now time.Time) {
	old := o.policy
	o.policy = p
	if old == p || old == nil {
		return
	}
	o.enforced.drop(now, longest(old, false))
	switch {
	case longest(p, true) == 0:
		o.shadow = ledger{}
	case longest(old, true) == 0:
		o.shadow = ledger{admitted: slices.Clone(o.enforced.admitted), since: o.enforced.since}
	default:
		o.shadow.drop(now, longest(old, true))
	}
	both := func(p *ratelimit.Policy) time.Duration { return max(longest(p, false), longest(p, true)) }
	if until := now.Add(both(old) + both(p)); until.After(o.tolerantUntil) {
		o.tolerantUntil = until
	}
}

// longest returns the longest window of the limits that are in shadow, or of those that are not; 0 for none.
func longest(p *ratelimit.Policy, shadow bool) time.Duration {
	var window time.Duration
	for _, l := range p.Limits() {
		if l.Shadow == shadow {
			window = max(window, l.Per)
		}
	}
	return window
}

// tolerance returns the time for which an admission may count too long in the limit.
func tolerance(l ratelimit.Limit) time.Duration {
	if l.Requests <= ratelimit.MaxExact {
		return resolution
	}
	return l.Per/60 + 60*resolution
}
