package redisstore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/ratelimit"
)

const (
	shards     = 256
	perShard   = 256
	unfollowed = time.Second            // how long a refusal is believed where refunds by others are not heard of
	sweepEvery = 10 * time.Second       // how often refusals that have run out are forgotten
	rejoin     = time.Second / 4        // between attempts to hear of refunds
	silence    = 500 * time.Millisecond // after which the channel is asked whether it is still there
)

// A refusal holds for one policy from when it was asked for until its time has come, or what it says of another limit is not
// true any more.
type refusal struct {
	policy   *ratelimit.Policy
	asked    time.Duration // by the local clock, before Redis was asked: so it never holds too long
	until    time.Duration
	decision ratelimit.Decision
}

func newRefusal(p *ratelimit.Policy, asked time.Duration, d *ratelimit.Decision) *refusal {
	holds := d.RetryAfter
	for _, b := range d.Budgets {
		if b.Reset > 0 {
			holds = min(holds, b.Reset)
		}
	}
	return &refusal{policy: p, asked: asked, until: asked + holds, decision: *d}
}

func (r *refusal) holds(now time.Duration) bool { return now >= r.asked && now < r.until }

// refusals are those that still hold, as far as there is room.
type refusals struct {
	following atomic.Bool // what makes them void is heard of
	seed      maphash.Seed
	shards    [shards]refusalShard
}

type refusalShard struct {
	mu    sync.Mutex
	known map[string]*refusal
	drops uint64 // goes up when a refusal becomes void before its time
}

func newRefusals() *refusals {
	rs := &refusals{seed: maphash.MakeSeed()}
	for i := range rs.shards {
		rs.shards[i].known = map[string]*refusal{}
	}
	return rs
}

func (rs *refusals) shard(tokenID string) *refusalShard {
	return &rs.shards[maphash.String(rs.seed, tokenID)%shards]
}

// find sets d to the refusal of a token that holds now, counted down, if there is one. The mark is to keep another one by.
func (rs *refusals) find(tokenID string, p *ratelimit.Policy, now time.Duration, d *ratelimit.Decision) (found bool, mark uint64) {
	sh := rs.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, ok := sh.known[tokenID]
	if !ok {
		return false, sh.drops
	}
	if r.policy != p || !r.holds(now) || now-r.asked > unfollowed && !rs.following.Load() {
		delete(sh.known, tokenID)
		return false, sh.drops
	}
	passed := now - r.asked
	*d = r.decision
	d.Cached = true
	d.RetryAfter -= passed
	d.At = d.At.Add(passed)
	for i := range d.Budgets {
		if b := &d.Budgets[i]; b.Reset > 0 {
			b.Reset -= passed
		}
	}
	return true, sh.drops
}

// keep remembers a refusal, unless one became void since the mark was made: it might have been this.
func (rs *refusals) keep(tokenID string, p *ratelimit.Policy, d *ratelimit.Decision, asked time.Duration, mark uint64) {
	sh := rs.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.drops != mark {
		return
	}
	if len(sh.known) >= perShard {
		for other := range sh.known { // any one: it costs a call
			delete(sh.known, other)
			break
		}
	}
	sh.known[tokenID] = newRefusal(p, asked, d)
}

// drop forgets the refusal of a token.
func (rs *refusals) drop(tokenID string) {
	sh := rs.shard(tokenID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.drops++
	delete(sh.known, tokenID)
}

// dropAll forgets every refusal.
func (rs *refusals) dropAll() {
	for i := range rs.shards {
		sh := &rs.shards[i]
		sh.mu.Lock()
		sh.drops++
		clear(sh.known)
		sh.mu.Unlock()
	}
}

// sweep forgets refusals that have run out.
func (rs *refusals) sweep(now time.Duration) {
	for i := range rs.shards {
		sh := &rs.shards[i]
		sh.mu.Lock()
		for id, r := range sh.known {
			if !r.holds(now) {
				delete(sh.known, id)
			}
		}
		sh.mu.Unlock()
	}
}
