package ratelimittest

import (
	"slices"
	"time"

	"opsgate/ratelimit"
)

// An oracle keeps every admission of one token. It may do so at any cost, so it can be simple enough to be right.
type oracle struct {
	enforced ledger
	shadow   ledger // what the limits in shadow admitted of that
	// settled is when the coarser knowledge from before a change of policy has run out.
	settled time.Time
	policy  *ratelimit.Policy
}

// A ledger is what limits that are decided together admitted.
type ledger struct {
	admitted []time.Time
	// known is how far back a store that changed policies can know of: it forgets what is older than the longest limit.
	known time.Time
}

// count returns the admissions that count at now in a window of length per.
func (l *ledger) count(now time.Time, per time.Duration) int {
	n := 0
	for _, at := range l.admitted {
		if at.Add(per).After(now) && !at.Before(l.known) {
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

// forget has the ledger know nothing of what a window of that length does not hold.
func (l *ledger) forget(now time.Time, window time.Duration) {
	if since := now.Add(1 - window); since.After(l.known) {
		l.known = since
	}
}

func (l *ledger) rewind(step time.Duration) {
	for i, at := range l.admitted {
		l.admitted[i] = at.Add(-step)
	}
	l.known = l.known.Add(-step)
}

func (o *oracle) refund(d ratelimit.Decision) {
	o.enforced.refund(d.At)
	if d.Shadowed < 0 {
		o.shadow.refund(d.At)
	}
}

// reset forgets everything.
func (o *oracle) reset() { *o = oracle{policy: o.policy} }

// rewind sets the clock back: on the new clock, everything happened that much earlier. A store cannot know, and counts what it
// remembers for longer; until that has run out, it may be more cautious than the oracle.
func (o *oracle) rewind(step time.Duration, now time.Time) {
	o.enforced.rewind(step)
	o.shadow.rewind(step)
	if until := now.Add(step + 2*time.Minute); until.After(o.settled) {
		o.settled = until
	}
}

// change brings another policy. What is new in the shadow begins with what was enforced.
func (o *oracle) change(p *ratelimit.Policy, now time.Time) {
	old := o.policy
	o.policy = p
	if old == p || old == nil {
		return
	}
	o.enforced.forget(now, longest(old, false))
	switch {
	case longest(p, true) == 0:
		o.shadow = ledger{}
	case longest(old, true) == 0:
		o.shadow = ledger{admitted: slices.Clone(o.enforced.admitted), known: o.enforced.known}
	default:
		o.shadow.forget(now, longest(old, true))
	}
	both := func(p *ratelimit.Policy) time.Duration { return max(longest(p, false), longest(p, true)) }
	if until := now.Add(both(old) + both(p)); until.After(o.settled) {
		o.settled = until
	}
}

// longest returns the longest window of the limits that are in shadow, or of those that are not; 0 for none.
func longest(p *ratelimit.Policy, shadow bool) time.Duration {
	var most time.Duration
	for _, l := range p.Limits() {
		if l.Shadow == shadow {
			most = max(most, l.Per)
		}
	}
	return most
}

// caution is how much too long an admission may count in the limit's window, at a store's clock.
func caution(l ratelimit.Limit) time.Duration {
	if l.Requests <= ratelimit.MaxExact {
		return resolution
	}
	return l.Per/60 + 60*resolution
}
