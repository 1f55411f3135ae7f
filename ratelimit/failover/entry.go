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

	// overtakenBy is how much later an answer can arrive than one that the shared store gave after it.
	overtakenBy = time.Second
)

// An entry is what this gateway keeps of one token. A call changes only the entry that it began with:
// what makes its answer obsolete replaces or deletes that entry.
type entry struct {
	last ratelimit.Account // of the newest answer of the shared store; nil for none
	own  ratelimit.Account // admissions of this gateway that the shared store lacks; nil for none

	// Of the call that returned last, by the shared store's clock, in µs.
	at          int64
	deniedUntil int64 // end of the cached denial; 0 for none

	policy *ratelimit.Policy // of the newest request
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

// cachedDenial returns the cached denial, with its times as of now by the shared store's clock, if the
// policy of the request denies it too.
func (s *Store) cachedDenial(r *request) (ratelimit.Decision, bool) {
	now, sh := s.sharedClock.at(s.now()), s.shard(r.tokenID)
	at := now.UnixMicro()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.entries[r.tokenID]
	if !ok || at >= e.deniedUntil {
		return ratelimit.Decision{}, false
	}
	age := time.Duration(at-e.at) * time.Microsecond
	if age < 0 || age > unsubscribedTTL && !s.subscribed() { // below 0 if the clock was set back
		return ratelimit.Decision{}, false
	}
	sh.scratch = append(sh.scratch[:0], e.last...)
	_, d, ok := r.policy.Decision(sh.scratch, now, ratelimit.Denied)
	d.Cached = true
	return d, ok
}

// beginCall returns the entry, and takes the gateway's own admissions from it, which the call carries.
// A peek carries nothing.
func (sh *shard) beginCall(r *request) (e *entry, upload ratelimit.Account) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e = sh.entry(r.tokenID)
	e.policy = r.policy
	if r.op != ratelimit.OpPeek {
		upload, e.own = e.own, nil
	}
	return e, upload
}

// restore returns an upload to the entry of a call that was not executed.
func (sh *shard) restore(tokenID string, e *entry, upload ratelimit.Account, at time.Time) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if upload != nil && sh.entries[tokenID] == e {
		e.own = ratelimit.Sum(e.own, upload, at)
	}
}

// endCall keeps the account that a call returned, unless a later one has overtaken it, and its denial.
// A peek wrote nothing, so its account is not kept.
func (sh *shard) endCall(r *request, e *entry, d *ratelimit.Decision, a ratelimit.Account) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := d.At.UnixMicro()
	overtaken := at < e.at && at > e.at-overtakenBy.Microseconds() // if it is even earlier, the clock was set back
	if r.op == ratelimit.OpPeek || overtaken || sh.entries[r.tokenID] != e {
		return
	}
	e.last, e.at, e.deniedUntil = a, at, 0
	if !d.Allowed && r.op == ratelimit.OpDecide {
		e.deniedUntil = at + d.RetryAfter.Microseconds()
	}
}

// decideByShare decides by the share of this gateway, and records an admission.
func (sh *shard) decideByShare(r *request, gateways int, at time.Time) ratelimit.Decision {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, peek := sh.entry(r.tokenID), r.op == ratelimit.OpPeek
	own, d := r.policy.DecideShare(gateways, e.last, e.own, at, peek)
	e.policy = r.policy
	if d.Allowed && !peek || e.own != nil { // else own stays nil: it has no admission
		e.own = own
	}
	return d
}

// refundOwn removes an admission that is not uploaded, and reports whether there was one.
func (sh *shard) refundOwn(tokenID string, at time.Time) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.entries[tokenID]
	if !ok {
		return false
	}
	before := e.own
	e.own = slices.Clone(before).Refund(at)
	return !bytes.Equal(e.own, before)
}

// DropDenial drops the cached denial of a token, after a refund by any gateway; with "", the denials of all tokens.
func (s *Store) DropDenial(tokenID string) {
	if tokenID != "" {
		s.shard(tokenID).dropDenial(tokenID)
		return
	}
	for i := range s.shards {
		s.shards[i].visitAll(func(e *entry, id string) { s.shards[i].entries[id] = e.withoutDenial() })
	}
}

func (sh *shard) dropDenial(tokenID string) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, ok := sh.entries[tokenID]; ok {
		sh.entries[tokenID] = e.withoutDenial()
	}
}

// withoutDenial returns an entry that replaces this one, so that no call in flight caches a denial.
func (e *entry) withoutDenial() *entry {
	replacement := *e
	replacement.deniedUntil = 0
	return &replacement
}

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
			if e.last.Unused(at) && e.own.Unused(at) {
				delete(sh.entries, id)
			}
		})
	}
}
