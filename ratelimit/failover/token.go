package failover

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"opsgate/ratelimit"
)

const (
	shards          = 256
	uploadEvery     = 100 * time.Millisecond // minimum time between uploads of one token during the pause
	unsubscribedTTL = time.Second            // maximum age of a cached denial while refunds by other gateways are not reported
)

// A state of a token determines what decides on its next request.
type state int

const (
	shared  state = iota // the shared store
	local                // this gateway: the shared store is not in use
	syncing              // the shared store, after an upload; during the pause, this gateway
)

// A token is the state of one token in this gateway, protected by the lock of its shard. Accounts are immutable, except own.
type token struct {
	account ratelimit.Account // newest one of the shared store; nil for none
	sent    ratelimit.Account // later admissions of this gateway that the shared store has counted or may have counted; nil for none
	sending ratelimit.Account // admissions of this gateway in an upload in flight; nil for none
	own     ratelimit.Account // admissions of this gateway that the shared store has not counted; nil for none
	epoch   uint64            // of the last upload of the account

	policy      *ratelimit.Policy // of the account
	at          int64             // time of the account by the shared store's clock, in µs
	start       time.Duration     // start of the call that returned the account
	deniedUntil time.Duration     // end of the cached denial; 0 for none

	answers     uint32        // accounts received
	denialDrops uint32        // how often the cached denial was dropped
	calls       int32         // in flight
	uploading   bool          // one of them uploads
	nextUpload  time.Duration // earliest time of the next one during the pause
}

type shard struct {
	mu      sync.Mutex
	tokens  map[string]*token
	scratch ratelimit.Account // buffer of denial
	_       [24]byte          // padding to a cache line
}

// token returns the token. A new token has nothing to upload.
func (sh *shard) token(id string, epoch uint64) *token {
	t, ok := sh.tokens[id]
	if !ok {
		t = &token{epoch: epoch}
		sh.tokens[id] = t
	}
	return t
}

func (t *token) state(ph *phase, now time.Duration) state {
	switch {
	case ph.outage:
		return local
	case t.epoch != ph.epoch, t.own != nil, now < ph.localUntil:
		return syncing
	default:
		return shared
	}
}

// denial returns the cached denial, with its times as of now, if it applies to the policy.
func (sh *shard) denial(t *token, p *ratelimit.Policy, now time.Duration, subscribed func() bool) (ratelimit.Decision, bool) {
	age := now - t.start
	if t.deniedUntil == 0 || now >= t.deniedUntil || age < 0 || t.policy != p || age > unsubscribedTTL && !subscribed() {
		return ratelimit.Decision{}, false
	}
	sh.scratch = append(sh.scratch[:0], t.account...)
	d, ok := p.Decision(sh.scratch, time.UnixMicro(t.at).Add(age), ratelimit.Denied)
	d.Cached = true
	return d, ok
}

// An exchangeCall is an exchange with the shared store, and the state of the token at its start.
type exchangeCall struct {
	ratelimit.Exchange

	start                time.Duration
	epoch                uint64
	answers, denialDrops uint32
	complete             bool // the shared store has all admissions of the token after it, so the account that it returns can be cached
	uploads              bool // it has an upload, so other requests of the token do not upload meanwhile
}

// begin begins a call that uploads nothing.
func (t *token) begin(op ratelimit.Op, ph *phase, now time.Duration) exchangeCall {
	t.calls++
	return exchangeCall{
		Exchange: ratelimit.Exchange{Op: op}, start: now, epoch: ph.epoch, answers: t.answers, denialDrops: t.denialDrops, complete: true,
	}
}

// upload begins a call with all admissions that the shared store may lack. A peek sends them for its decision; the shared store does not
// keep them.
func (t *token) upload(op ratelimit.Op, p *ratelimit.Policy, ph *phase, now time.Duration, at time.Time) exchangeCall {
	c := t.begin(op, ph, now)
	if t.epoch != ph.epoch && (t.account != nil || t.sent != nil) {
		c.Known = p.Merge(t.account, t.sent, false, at)
	}
	if t.own != nil {
		c.Own = p.Merge(t.own, nil, false, at)
	}
	c.complete = op != ratelimit.OpPeek
	c.uploads = c.complete && (c.Known != nil || c.Own != nil)
	if c.uploads {
		t.uploading, t.nextUpload = true, now+uploadEvery
		t.sending, t.own = t.own, nil
	}
	return c
}

// end ends a call and returns the admissions of this gateway that it uploaded.
func (t *token) end(c *exchangeCall) (uploaded ratelimit.Account) {
	t.calls--
	if c.uploads {
		uploaded, t.sending, t.uploading = t.sending, nil, false
	}
	return uploaded
}

// failed ends a call without an answer. mayBeExecuted reports whether the shared store may have executed it; else its upload must be
// repeated.
func (t *token) failed(c *exchangeCall, p *ratelimit.Policy, mayBeExecuted bool, at time.Time) {
	uploaded := t.end(c)
	if mayBeExecuted {
		t.sent = join(p, t.sent, uploaded, at)
	} else {
		t.own = join(p, uploaded, t.own, at)
	}
}

// answered ends a call with the account that it returned. Answers can overtake each other, and may lack the upload of another call.
func (t *token) answered(c *exchangeCall, p *ratelimit.Policy, d *ratelimit.Decision, a ratelimit.Account, current *phase) {
	uploaded := t.end(c)
	if c.complete {
		t.epoch = max(t.epoch, c.epoch)
	}
	switch at := d.At.UnixMicro(); {
	case t.answers != c.answers && at < t.at:
		// The cached account is newer, and has the admission of this call.
	case !c.complete, c.Op == ratelimit.OpMerge, c.epoch != current.epoch:
		t.sent = join(p, t.sent, uploaded, d.At)
		if c.Op == ratelimit.OpDecide && d.Allowed {
			t.record(p, d.At)
		}
	default:
		t.account, t.sent, t.policy, t.at, t.start, t.deniedUntil = a, nil, p, at, c.start, 0
		t.answers++
		// A denial of a peek is not cached: if the clock was set back, a peek does not store the corrected times.
		if !d.Allowed && t.denialDrops == c.denialDrops && c.Op == ratelimit.OpDecide {
			t.deniedUntil = c.start + d.RetryAfter
		}
	}
}

// record adds to sent an admission that the shared store may have counted.
func (t *token) record(p *ratelimit.Policy, at time.Time) {
	admission, _ := p.DecideShare(ratelimit.Share{}, nil, at, false) // an account with the admission alone
	t.sent = join(p, t.sent, admission, at)
}

// dropDenial drops the cached denial, and that of calls in flight.
func (t *token) dropDenial() {
	t.denialDrops++
	t.deniedUntil = 0
}

// unused reports whether the token can be dropped.
func (t *token) unused(at time.Time, replicas int) bool {
	return t.calls == 0 && t.account.Unused(at, 1) && t.sent.Unused(at, replicas) && t.own.Unused(at, replicas)
}

// join returns the sum of two accounts, which may be nil.
func join(p *ratelimit.Policy, a, b ratelimit.Account, at time.Time) ratelimit.Account {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	default:
		return p.Merge(a, b, false, at)
	}
}

// remove removes an admission from an account, and reports whether the account had it.
func remove(a *ratelimit.Account, d *ratelimit.Decision) bool {
	refunded := slices.Clone(*a).Refund(d.At, d.ShadowDeniedBy < 0)
	if bytes.Equal(refunded, *a) {
		return false
	}
	*a = refunded
	return true
}
