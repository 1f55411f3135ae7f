package failover

import (
	"bytes"
	"slices"
	"time"

	"opsgate/ratelimit"
)

// A ledger is the admissions of one token that this gateway must count, each in one of four accounts. Accounts are nil if there are none,
// and immutable, except own.
//
//	own ──an upload begins──▶ sending ──executed, perhaps──▶ sent ──the next account has them──▶ account
//	 ▲─────not executed──────────┘
type ledger struct {
	account ratelimit.Account // newest one of the shared store
	sent    ratelimit.Account // later admissions of this gateway that the shared store counts or may count
	sending ratelimit.Account // admissions of this gateway in an upload in flight
	own     ratelimit.Account // admissions of this gateway that the shared store does not count
}

// decide decides by the share of this gateway and records an admission. counted reports whether the shared store may count it.
func (l *ledger) decide(p *ratelimit.Policy, replicas int, at time.Time, peek, counted bool) ratelimit.Decision {
	share := ratelimit.Share{Replicas: replicas, Shared: l.account, Sent: sum(l.sent, l.sending, at)}
	own := l.own
	if counted {
		own = bytes.Clone(own)
	}
	own, d := p.DecideShare(share, own, at, peek)
	switch admitted := d.Allowed && !peek; {
	case counted && admitted:
		l.addSent(p, at)
	case !counted && (admitted || l.own != nil):
		l.own = own
	}
	return d
}

// addSent records an admission that the shared store counts or may count.
func (l *ledger) addSent(p *ratelimit.Policy, at time.Time) {
	admission, _ := p.DecideShare(ratelimit.Share{}, nil, at, false) // an account with the admission alone
	l.sent = sum(l.sent, admission, at)
}

// missing returns what the shared store may lack: its account, if it may have lost that, and the admissions of this gateway.
func (l *ledger) missing(lost bool, at time.Time) (lastSeen, own ratelimit.Account) {
	if lost {
		lastSeen = bytes.Clone(sum(l.account, l.sent, at))
	}
	return lastSeen, bytes.Clone(l.own)
}

// hasMissing reports whether missing returns an account.
func (l *ledger) hasMissing(lost bool) bool {
	return l.own != nil || lost && (l.account != nil || l.sent != nil)
}

// replace replaces the account of the shared store by one with every admission that was sent.
func (l *ledger) replace(a ratelimit.Account) { l.account, l.sent = a, nil }

// refund removes an admission, and reports whether the shared store counts or may count it.
func (l *ledger) refund(d *ratelimit.Decision) (counted bool) {
	if d.Local && remove(&l.own, d) {
		return false
	}
	found := d.Local && remove(&l.sending, d) || remove(&l.sent, d) || remove(&l.account, d)
	return found || !d.Local
}

// unused reports whether no admission counts, in as many windows as there are gateways.
func (l *ledger) unused(at time.Time, replicas int) bool {
	return l.account.Unused(at, 1) && l.sent.Unused(at, replicas) && l.sending == nil && l.own.Unused(at, replicas)
}

// lengths is for how many lengths windows keep times: a share reads one for each gateway.
const lengths = 1000

// sum returns the sum of two accounts, which may be nil.
func sum(a, b ratelimit.Account, at time.Time) ratelimit.Account {
	return ratelimit.Merge(a, b, false, lengths, at)
}

// remove removes an admission from an account, and reports whether the account had it.
func remove(a *ratelimit.Account, d *ratelimit.Decision) bool {
	refunded := slices.Clone(*a).Refund(d.At)
	if bytes.Equal(refunded, *a) {
		return false
	}
	*a = refunded
	return true
}
