package failover

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"opsgate/ratelimit"
)

const (
	shards          = 256
	unsubscribedTTL = time.Second // maximum age of a cached denial while refunds by other gateways are not reported

	// An answer whose time is earlier than that of the last one was overtaken by it. If it is
	// earlier by more than this, it was not: the clock of the shared store was set back.
	maxOvertaken = time.Second
)

// An entry is what this gateway keeps of one token. A reset deletes it, and a call that ends later
// changes nothing.
type entry struct {
	last ratelimit.Account // of the newest answer of the shared store; nil for none
	own  ratelimit.Account // admissions of this gateway that the shared store lacks; nil for none
	sent ratelimit.Account // such admissions that a call carries; nil for none

	// Of the newest answer, by the shared store's clock, in µs.
	answeredAt  int64
	deniedUntil int64 // end of the cached denial; 0 for none
	drops       int   // of cached denials: no call that began before the last one caches a denial

	policy *ratelimit.Policy // of the newest request: an upload of the background loop has none of its own
}

// A call is a call of the shared store for a request.
type call struct {
	*request

	entry  *entry
	drops  int               // of the entry when the call began
	upload ratelimit.Account // nil for none
}

type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
	scratch ratelimit.Account // buffer of cachedDenial
	_       [24]byte          // padding to a cache line
}

func (s *Store) shard(tokenID string) *shard {
	return &s.shards[maphash.String(s.seed, tokenID)%shards]
}

// entry returns the entry of a token, which may be new. The shard must be locked.
func (sh *shard) entry(tokenID string) *entry {
	e, ok := sh.entries[tokenID]
	if !ok {
		e = new(entry)
		sh.entries[tokenID] = e
	}
	return e
}

// cachedDenial returns the cached denial, if it holds under the policy of the request too, with its
// times as of now by the shared store's clock.
func (s *Store) cachedDenial(r *request) (ratelimit.Decision, bool) {
	now, sh := s.sharedClock.at(s.now()), s.shard(r.tokenID)
	at := now.UnixMicro()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.entries[r.tokenID]
	if !ok || at >= e.deniedUntil {
		return ratelimit.Decision{}, false
	}
	age := time.Duration(at-e.answeredAt) * time.Microsecond
	if age < 0 || age > unsubscribedTTL && !s.subscribed() { // below 0 if the clock was set back
		return ratelimit.Decision{}, false
	}
	sh.scratch = append(sh.scratch[:0], e.last...)
	_, d, ok := r.policy.Decision(sh.scratch, now, ratelimit.Denied) // not ok if the policy admits the request
	d.Cached = true
	return d, ok
}

// beginCall begins a call. It carries the gateway's own admissions, unless it is a peek or another
// call carries some.
func (sh *shard) beginCall(r *request) call {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.entry(r.tokenID)
	e.policy = r.policy
	c := call{request: r, entry: e, drops: e.drops}
	if r.op != ratelimit.OpPeek && e.sent == nil {
		c.upload, e.sent, e.own = e.own, e.own, nil
	}
	return c
}

// failed ends a call without an answer. If it was not executed, the gateway keeps what it carried.
func (sh *shard) failed(c call, executed bool, at time.Time) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := c.entry; c.upload != nil {
		if !executed {
			e.own = ratelimit.Sum(e.own, e.sent, at)
		}
		e.sent = nil
	}
}

// answered ends a call. The account and the denial that it returned are kept, unless a later answer
// has overtaken it, or it is a peek, which wrote nothing.
func (sh *shard) answered(c call, d *ratelimit.Decision, a ratelimit.Account) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, at := c.entry, d.At.UnixMicro()
	if c.upload != nil {
		e.sent = nil
	}
	overtaken := at < e.answeredAt && at > e.answeredAt-maxOvertaken.Microseconds()
	if c.op == ratelimit.OpPeek || overtaken {
		return
	}
	e.last, e.answeredAt, e.deniedUntil = a, at, 0
	if !d.Allowed && c.op == ratelimit.OpDecide && c.drops == e.drops {
		e.deniedUntil = at + d.RetryAfter.Microseconds()
	}
}

// decideByShare decides by the share of this gateway, and records an admission.
func (sh *shard) decideByShare(r *request, gateways int, at time.Time) ratelimit.Decision {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, peek := sh.entry(r.tokenID), r.op == ratelimit.OpPeek
	own, d := r.policy.DecideShare(gateways, e.last, e.own, e.sent, at, peek)
	e.policy = r.policy
	if d.Allowed && !peek || e.own != nil { // else own stays nil: it has no admission
		e.own = own
	}
	return d
}

// refundOwn removes an admission that is not uploaded, and reports whether there was one. One that
// a call carries is removed in case that the call is not executed, but is not reported, because the
// shared store may have it.
func (sh *shard) refundOwn(tokenID string, at time.Time) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.entries[tokenID]
	if !ok {
		return false
	}
	before := e.own
	e.own = slices.Clone(before).Refund(at)
	removed := !bytes.Equal(e.own, before)
	if !removed {
		e.sent = slices.Clone(e.sent).Refund(at)
	}
	return removed
}

// DropDenial drops the cached denial of a token, after a refund by any gateway; with "", the
// denials of all tokens.
func (s *Store) DropDenial(tokenID string) {
	if tokenID != "" {
		s.shard(tokenID).dropDenial(tokenID)
		return
	}
	for i := range s.shards {
		s.shards[i].visitAll(func(e *entry, _ string) { e.dropDenial() })
	}
}

func (sh *shard) dropDenial(tokenID string) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, ok := sh.entries[tokenID]; ok {
		e.dropDenial()
	}
}

func (e *entry) dropDenial() { e.deniedUntil, e.drops = 0, e.drops+1 }

// Drop drops what this gateway keeps of a token, after a reset by any gateway.
func (s *Store) Drop(tokenID string) {
	sh := s.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.entries, tokenID)
}

// visitAll calls a function with each entry.
func (sh *shard) visitAll(visit func(e *entry, tokenID string)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for id, e := range sh.entries {
		visit(e, id)
	}
}

// sweep drops entries without usage.
func (s *Store) sweep() {
	at := s.sharedClock.at(s.now())
	for i := range s.shards {
		sh := &s.shards[i]
		sh.visitAll(func(e *entry, id string) {
			if e.last.Unused(at) && e.own.Unused(at) && e.sent == nil {
				delete(sh.entries, id)
			}
		})
	}
}
