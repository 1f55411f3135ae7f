package ratelimittest

import (
	"slices"
	"time"

	"opsgate/ratelimit"
)

// An oracle keeps every admission of one token. It may do so at any cost, so it can be simple enough to be right.
type oracle struct {
	admitted []time.Time
	// known is how far back a store that changed policies can know of: it forgets what is older than the longest limit.
	known time.Time
	// settled is when the coarser knowledge from before a change of policy has run out.
	settled time.Time
	policy  *ratelimit.Policy
}

// count returns the admissions that count at now in a window of length per.
func (o *oracle) count(now time.Time, per time.Duration) int {
	n := 0
	for _, at := range o.admitted {
		if at.Add(per).After(now) && !at.Before(o.known) {
			n++
		}
	}
	return n
}

func (o *oracle) refund(at time.Time) {
	if i := slices.IndexFunc(o.admitted, at.Equal); i >= 0 {
		o.admitted = slices.Delete(o.admitted, i, i+1)
	}
}

// rewind sets the clock back: on the new clock, everything happened that much earlier. A store cannot know, and counts what it
// remembers for longer; until that has run out, it may be more cautious than the oracle.
func (o *oracle) rewind(step time.Duration, now time.Time) {
	for i, at := range o.admitted {
		o.admitted[i] = at.Add(-step)
	}
	o.known = o.known.Add(-step)
	if until := now.Add(step + 2*time.Minute); until.After(o.settled) {
		o.settled = until
	}
}

func (o *oracle) change(p *ratelimit.Policy, now time.Time) {
	if o.policy == p {
		return
	}
	if o.policy != nil {
		if since := now.Add(-longest(o.policy)); since.After(o.known) {
			o.known = since
		}
		if until := now.Add(longest(o.policy) + longest(p)); until.After(o.settled) {
			o.settled = until
		}
	}
	o.policy = p
}

func longest(p *ratelimit.Policy) time.Duration {
	var most time.Duration
	for _, l := range p.Limits() {
		most = max(most, l.Per)
	}
	return most
}

// caution is how much too long an admission may count in the limit's window.
func caution(l ratelimit.Limit) time.Duration {
	if l.Requests <= ratelimit.MaxExact {
		return l.Per / 1_000_000 // times are kept in ticks
	}
	return l.Per/60 + 60
}
