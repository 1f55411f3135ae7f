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
	sent    ratelimit.Account // later admissions of this gateway in calls that the shared store has or may have executed
	sending ratelimit.Account // admissions of this gateway in an upload in flight
	own     ratelimit.Account // admissions of this gateway that the shared store does not count
}

// decideByShare decides by the share of this gateway and records an admission. maybeExecuted reports whether the shared store may have
// recorded it too.
func (l *ledger) decideByShare(p *ratelimit.Policy, gateways int, at time.Time, peek, maybeExecuted bool) ratelimit.Decision {
	in := ratelimit.ShareInput{Gateways: gateways, Shared: l.account, Sent: sum(l.sent, l.sending, at)}
	if maybeExecuted {
		_, d := p.DecideShare(in, bytes.Clone(l.own), at, peek) // of a copy, which it modifies
		if d.Allowed && !peek {
			l.addSent(p, at)
		}
		return d
	}
	own, d := p.DecideShare(in, l.own, at, peek)
	if d.Allowed && !peek || l.own != nil { // else own stays nil: it has no admission
		l.own = own
	}
	return d
}

// addSent records an admission that the shared store counts or may count.
func (l *ledger) addSent(p *ratelimit.Policy, at time.Time) {
	admission, _ := p.DecideShare(ratelimit.ShareInput{}, nil, at, false) // an account with the admission alone
	l.sent = sum(l.sent, admission, at)
}

// missing returns what the shared store may lack: the account and the sent admissions, if it may have lost them, and the own admissions.
func (l *ledger) missing(lost bool, at time.Time) (lastSeen, own ratelimit.Account) {
	if lost {
		lastSeen = sum(l.account, l.sent, at)
	}
	return lastSeen, bytes.Clone(l.own) // after a peek, decideByShare may modify own while the call is in flight
}

// hasMissing reports whether missing returns an account.
func (l *ledger) hasMissing(lost bool) bool {
	return l.own != nil || lost && (l.account != nil || l.sent != nil)
}

// refund removes an admission from the account that has it, and reports whether the shared store counts or may count it.
func (l *ledger) refund(d *ratelimit.Decision) (counted bool) {
	accounts := []*ratelimit.Account{&l.own, &l.sending, &l.sent, &l.account}
	if !d.Local {
		accounts = accounts[2:] // without own and sending, which have local admissions only
	}
	for _, a := range accounts {
		refunded := slices.Clone(*a).Refund(d.At)
		if !bytes.Equal(refunded, *a) {
			*a = refunded
			return a != &l.own // which the shared store does not have
		}
	}
	return !d.Local
}

// unused reports whether no admission counts, in as many windows as there are gateways.
func (l *ledger) unused(at time.Time, gateways int) bool {
	return l.account.Unused(at, ratelimit.OneLength) && l.sent.Unused(at, gateways) && l.sending == nil && l.own.Unused(at, gateways)
}

// sum returns the sum of two accounts, which may be nil. Windows of times keep theirs for as many lengths as a share can need.
func sum(a, b ratelimit.Account, at time.Time) ratelimit.Account {
	return ratelimit.Sum(a, b, maxGateways, at)
}
