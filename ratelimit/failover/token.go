package failover

import (
	"sync"
	"time"

	"opsgate/ratelimit"
)

const (
	shards          = 256
	uploadEvery     = 100 * time.Millisecond // minimum time between uploads of one token during the pause
	unsubscribedTTL = time.Second            // maximum age of a cached denial while refunds by other gateways are not reported
)

// A tokenState determines what decides on the next request of a token.
type tokenState int

const (
	stateShared  tokenState = iota // the shared store
	stateLocal                     // this gateway: the shared store is not in use
	statePaused                    // this gateway, which also uploads: other gateways may have admissions to upload
	stateSyncing                   // the shared store, after an upload
)

// A token is the state of one token in this gateway, protected by the lock of its shard.
type token struct {
	ledger

	// Of the call that returned account: its policy, and the time of its decision. Times are by the shared store's clock, in µs.
	policy      *ratelimit.Policy
	accountAt   int64
	deniedUntil int64 // end of the cached denial; 0 for none

	// If epoch is not storeState.epoch, the shared store may have lost account and sent. Else it has them, except admissions in sent whose
	// calls timed out: it may have executed these, or may do so later.
	epoch            uint32
	accountsCached   uint32        // number of accounts cached so far
	denialDrops      uint16        // how often the cached denial was dropped
	uploadInFlight   bool          // a call in flight is an upload
	uploadIncomplete bool          // during the upload, sent got an admission that may be lost: upload again
	calls            int32         // in flight
	nextUpload       time.Duration // earliest time of the next upload during the pause
}

type shard struct {
	mu      sync.Mutex
	tokens  map[string]*token
	scratch ratelimit.Account // buffer of denial
	_       [24]byte          // padding to a cache line
}

func (t *token) state(st *storeState, now time.Duration) tokenState {
	switch {
	case st.outage:
		return stateLocal
	case now < st.pausedUntil:
		return statePaused
	case t.hasMissing(t.epoch != st.epoch):
		return stateSyncing
	default:
		return stateShared
	}
}

// denial returns the cached denial, with its times as of now by the shared store's clock, if it applies to the policy.
func (sh *shard) denial(t *token, p *ratelimit.Policy, now time.Time, subscribed func() bool) (ratelimit.Decision, bool) {
	at := now.UnixMicro()
	age := at - t.accountAt // negative if the clock was set back
	if at >= t.deniedUntil || age < 0 || t.policy != p || age > unsubscribedTTL.Microseconds() && !subscribed() {
		return ratelimit.Decision{}, false
	}
	sh.scratch = append(sh.scratch[:0], t.account...)
	_, d, ok := p.Decision(sh.scratch, now, ratelimit.Denied)
	d.Cached = true
	return d, ok
}

// A call is an exchange with the shared store for a request, and the state of its token at the start.
type call struct {
	request
	ratelimit.Exchange

	shard *shard
	token *token // nil for no call

	start          time.Duration
	epoch          uint32
	accountsCached uint32
	denialDrops    uint16
	isUpload       bool // the shared store keeps the accounts that the call carries; false for a peek
	notCacheable   bool // the account that it returns may lack admissions, or the shared store does not keep it
}

// newCall begins a call.
func (t *token) newCall(r request, epoch uint32, now time.Duration) call {
	t.calls++
	return call{
		request: r, Exchange: ratelimit.Exchange{Op: r.op}, token: t,
		start: now, epoch: epoch, accountsCached: t.accountsCached, denialDrops: t.denialDrops,
	}
}

// newCallWithMissing begins a call that carries what the shared store may lack; nothing if an upload is in flight. A peek carries it for
// its own decision, and the shared store does not keep it. The account that the call returns is not cached if it lacks what is in flight,
// is of a peek, or is of a merge: then other gateways may still have admissions to upload.
func (t *token) newCallWithMissing(r request, epoch uint32, now time.Duration, at time.Time) call {
	c := t.newCall(r, epoch, now)
	c.notCacheable = t.uploadInFlight || r.op != ratelimit.OpDecide
	if t.uploadInFlight {
		return c
	}
	c.LastSeen, c.Own = t.missing(t.epoch != epoch, at)
	if r.op != ratelimit.OpPeek {
		c.isUpload, t.uploadInFlight, t.uploadIncomplete = true, true, false
		t.nextUpload = now + uploadEvery
		t.sending, t.own = t.own, nil
	}
	return c
}

// end ends a call and returns the admissions of this gateway that it uploaded.
func (t *token) end(c *call) (uploaded ratelimit.Account) {
	t.calls--
	if c.isUpload {
		uploaded, t.sending, t.uploadInFlight = t.sending, nil, false
	}
	return uploaded
}

// recordSent records the admissions of a call that the shared store has or may have executed. If its epoch is not the current one, they may
// be lost: t.epoch is set back, so the next request uploads them.
func (t *token) recordSent(c *call, admissions ratelimit.Account, at time.Time, epoch uint32) {
	t.sent = sum(t.sent, admissions, at)
	if c.epoch != epoch {
		t.epoch, t.uploadIncomplete = min(t.epoch, c.epoch), true
	}
}

// endUnanswered ends a call without an answer. maybeExecuted reports whether the shared store may have executed it; else its upload is
// repeated.
func (t *token) endUnanswered(c *call, maybeExecuted bool, at time.Time, epoch uint32) {
	uploaded := t.end(c)
	if maybeExecuted {
		t.recordSent(c, uploaded, at, epoch)
	} else {
		t.own = sum(uploaded, t.own, at)
	}
}

// endAnswered ends a call with the account that it returned.
func (t *token) endAnswered(c *call, d *ratelimit.Decision, a ratelimit.Account, epoch uint32) {
	uploaded := t.end(c)
	if c.isUpload && !t.uploadIncomplete {
		t.epoch = max(t.epoch, c.epoch)
	}
	// Another call has cached a later account meanwhile. The time alone does not show that, as the clock may have been set back.
	outdated := t.accountsCached != c.accountsCached && d.At.UnixMicro() < t.accountAt
	switch {
	case outdated: // the later account has its admissions; if the store lost them in between, they stay lost
	case c.notCacheable, c.epoch != epoch, t.epoch != epoch: // the account may lack admissions, or be lost
		t.recordSent(c, uploaded, d.At, epoch)
		if c.Op == ratelimit.OpDecide && d.Allowed {
			t.addSent(c.policy, d.At)
		}
	default:
		t.cache(c, d, a)
	}
}

// cache caches an account, and its decision. The account has every admission that was sent, except those of calls that timed out and are
// executed later.
func (t *token) cache(c *call, d *ratelimit.Decision, a ratelimit.Account) {
	t.account, t.sent = a, nil
	t.accountsCached++
	t.policy, t.accountAt, t.deniedUntil = c.policy, d.At.UnixMicro(), 0
	// A denial of a peek is not cached. If the clock was set back, a peek moves admissions to now and does not store them; the next
	// call moves them to its own, later now. So the wait of the peek is too short.
	if !d.Allowed && t.denialDrops == c.denialDrops && c.Op == ratelimit.OpDecide {
		t.deniedUntil = t.accountAt + d.RetryAfter.Microseconds()
	}
}

// dropDenial drops the cached denial, and keeps calls in flight from caching one.
func (t *token) dropDenial() {
	t.denialDrops++
	t.deniedUntil = 0
}
