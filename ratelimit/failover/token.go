package failover

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"opsgate/ratelimit"
)

const (
	shards      = 256
	uploadEvery = 100 * time.Millisecond // at most, of one token during the pause
	unfollowed  = time.Second            // how long a denial is repeated where refunds by other gateways are not reported
)

// A state is what decides on the next request of a token.
type state int

const (
	shared  state = iota // the shared store
	local                // this gateway: the shared store is not in use
	syncing              // the shared store, after an upload; during the pause, this gateway
)

// A token is what this gateway has of one token. The lock of its shard protects it. Accounts are replaced and not modified, except own.
type token struct {
	account ratelimit.Account // newest of the shared store; nil for none
	sent    ratelimit.Account // admitted by this gateway since, and counted by the shared store, or perhaps counted; nil for none
	sending ratelimit.Account // admitted by this gateway, in an upload that has not ended; nil for none
	own     ratelimit.Account // admitted by this gateway, and not counted by the shared store; nil for none
	epoch   uint64            // the last one that the account was uploaded in

	policy      *ratelimit.Policy // of the account
	at          int64             // time of the account by the shared store's clock, in µs
	asked       time.Duration     // when the call began that returned it
	deniedUntil time.Duration     // the account denies until then; 0 for no denial

	answers    uint32        // accounts received
	voids      uint32        // refunds of this token
	calls      int32         // in flight
	uploading  bool          // one of them uploads
	nextUpload time.Duration // not before, during the pause
}

type shard struct {
	mu      sync.Mutex
	tokens  map[string]*token
	scratch ratelimit.Account // of a denial that is repeated
	_       [24]byte          // a cache line each
}

// token returns the token. One that is not kept is new, and has nothing to upload.
func (sh *shard) token(id string, epoch uint64) *token {
	t, kept := sh.tokens[id]
	if !kept {
		t = &token{epoch: epoch}
		sh.tokens[id] = t
	}
	return t
}

func (t *token) state(ph *phase, now time.Duration) state {
	switch {
	case ph.away:
		return local
	case t.epoch != ph.epoch, t.own != nil, now < ph.pause:
		return syncing
	default:
		return shared
	}
}

// denial returns the kept denial, with its times as of now, if it still holds for the policy.
func (sh *shard) denial(t *token, p *ratelimit.Policy, now time.Duration, followed func() bool) (ratelimit.Decision, bool) {
	age := now - t.asked
	if t.deniedUntil == 0 || now >= t.deniedUntil || age < 0 || t.policy != p || age > unfollowed && !followed() {
		return ratelimit.Decision{}, false
	}
	sh.scratch = append(sh.scratch[:0], t.account...)
	d, ok := p.Decision(sh.scratch, time.UnixMicro(t.at).Add(age), ratelimit.Denied)
	d.Cached = true
	return d, ok
}

// A call is an exchange with the shared store, and what the token was when it began.
type call struct {
	ratelimit.Exchange

	asked          time.Duration
	epoch          uint64
	answers, voids uint32
	complete       bool // the shared store has all of the token, and the answer is worth keeping
	uploads        bool // other requests do not upload meanwhile
}

// ask begins a call that uploads nothing.
func (t *token) ask(op ratelimit.Op, ph *phase, now time.Duration) call {
	t.calls++
	return call{
		Exchange: ratelimit.Exchange{Op: op}, asked: now, epoch: ph.epoch, answers: t.answers, voids: t.voids, complete: true,
	}
}

// upload begins a call with all that the shared store may lack. A peek has it decided with that, and records nothing.
func (t *token) upload(op ratelimit.Op, p *ratelimit.Policy, ph *phase, now time.Duration, at time.Time) call {
	c := t.ask(op, ph, now)
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

// end ends a call and returns what it uploaded of this gateway's admissions.
func (t *token) end(c *call) (uploaded ratelimit.Account) {
	t.calls--
	if c.uploads {
		uploaded, t.sending, t.uploading = t.sending, nil, false
	}
	return uploaded
}

// failed ends a call without an answer. What certainly did not arrive has still to be uploaded.
func (t *token) failed(c *call, p *ratelimit.Policy, arrived bool, at time.Time) {
	uploaded := t.end(c)
	if arrived {
		t.sent = join(p, t.sent, uploaded, at)
	} else {
		t.own = join(p, uploaded, t.own, at)
	}
}

// answered ends a call with the account that it returned. Answers may overtake each other, and lack what is uploaded by another call.
func (t *token) answered(c *call, p *ratelimit.Policy, d *ratelimit.Decision, a ratelimit.Account, current *phase) {
	uploaded := t.end(c)
	if c.complete {
		t.epoch = max(t.epoch, c.epoch)
	}
	switch at := d.At.UnixMicro(); {
	case t.answers != c.answers && at < t.at:
		// The newer account that is kept has what this call recorded.
	case !c.complete, c.Op == ratelimit.OpMerge, c.epoch != current.epoch:
		t.sent = join(p, t.sent, uploaded, d.At)
		if c.Op == ratelimit.OpDecide && d.Allowed {
			t.record(p, d.At)
		}
	default:
		t.account, t.sent, t.policy, t.at, t.asked, t.deniedUntil = a, nil, p, at, c.asked, 0
		t.answers++
		if !d.Allowed && t.voids == c.voids && c.Op == ratelimit.OpDecide { // a peek does not record where the clock was set back
			t.deniedUntil = c.asked + d.RetryAfter
		}
	}
}

// record adds an admission that the shared store has counted, or may have.
func (t *token) record(p *ratelimit.Policy, at time.Time) {
	admission, _ := p.DecideShare(ratelimit.Share{}, nil, at, false)
	t.sent = join(p, t.sent, admission, at)
}

// void drops a denial that a refund has made void, also one that is about to be returned.
func (t *token) void() {
	t.voids++
	t.deniedUntil = 0
}

// unused reports whether the token needs not be kept.
func (t *token) unused(at time.Time, replicas int) bool {
	return t.calls == 0 && t.account.Unused(at, 1) && t.sent.Unused(at, replicas) && t.own.Unused(at, replicas)
}

// join adds two accounts of which either may be nil.
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

// take takes an admission out of an account, and reports whether that has it.
func take(a *ratelimit.Account, d *ratelimit.Decision) bool {
	left := slices.Clone(*a).Refund(d.At, d.Shadowed < 0)
	if bytes.Equal(left, *a) {
		return false
	}
	*a = left
	return true
}
