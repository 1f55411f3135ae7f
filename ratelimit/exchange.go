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
	Peeked           // no decision was recorded: the operation was a peek or an upload
)

// An Op is an operation of a shared store on a token's account.
type Op int

// The operations.
const (
	OpDecide Op = iota // add the upload, decide, and record the admission
	OpPeek             // decide, but write nothing
	OpUpload           // add the upload
)

// An Exchange is a call to a shared store. Its upload is the admissions of a gateway that the store
// lacks; nil for none.
type Exchange struct {
	Op     Op
	Upload Account
}

// ErrNotExecuted is wrapped in the error of a call that the shared store has not executed.
var ErrNotExecuted = errors.New("not executed")

// instant returns a time as accounts encode it.
func instant(at time.Time) int64 { return max(earliest, at.UnixMicro()) }

// Decision computes the decision on a request from its outcome and from the account after it. It
// returns the account too, advanced to the time, and reports false if the account is not valid,
// lacks a window of the policy, or contradicts the outcome. It may modify the account passed.
func (p *Policy) Decision(a Account, at time.Time, o Outcome) (Account, Decision, bool) {
	now := instant(at)
	if !a.valid() {
		return nil, Decision{}, false
	}
	a, _ = a.advance(now)
	if !p.hasWindowsUsedSince(a, anyTime) {
		return nil, Decision{}, false
	}
	d := p.decision(a, now, o == Admitted)
	contradicted := o == Denied && d.Allowed
	return a, d, !contradicted
}

// ExecuteExchange executes a call to a shared store on the stored account of a token, which may be
// nil. It is the reference for the script of redisstore, and the shared store of tests. It returns
// the account after the call, whether the store writes it, and the decision; for [OpUpload], the
// decision is that of a peek.
func (p *Policy) ExecuteExchange(stored Account, x Exchange, at time.Time) (a Account, write bool, d Decision) {
	now := instant(at)
	if stored.valid() {
		a, write = slices.Clone(stored).advance(now)
	}
	if len(x.Upload) > 0 {
		a, write = Sum(a, x.Upload, at), true
	}
	a, changed := p.prepareWindows(a, now)
	a, d = p.decide(a, now, x.Op != OpDecide)
	recorded := x.Op == OpDecide && d.Allowed
	return a, x.Op != OpPeek && (write || changed || recorded), d
}

// Refund removes one admission with the given time from each window that has one, in place, and
// returns the account.
func (a Account) Refund(at time.Time) Account {
	if !a.valid() {
		return a
	}
	for i := headerBytes; i < len(a); i += window(a[i:]).size() {
		a = a.remove(i, instant(at))
	}
	return a
}

// Unused reports whether no admission of the account counts at a time.
func (a Account) Unused(at time.Time) bool {
	if !a.valid() {
		return true
	}
	for i := headerBytes; i < len(a); i += window(a[i:]).size() {
		if n, _ := window(a[i:]).usageAt(instant(at)); n > 0 {
			return false
		}
	}
	return true
}
