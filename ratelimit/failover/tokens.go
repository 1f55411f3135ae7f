package failover

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"opsgate/ratelimit"
)

const shards = 256

// tokens are those that were decided here or settled of late. They are none while all is well.
type tokens struct {
	shards [shards]shard
}

type shard struct {
	mu    sync.Mutex
	known map[string]*token
	_     [48]byte // a cache line each
}

// A token is what is to be thought of before the shared store decides on it. Its lock is held while it is decided here.
type token struct {
	settled atomic.Uint64 // the outage since which the shared store was told of it; 0 while it is decided here

	mu    sync.Mutex
	gone  bool      // out of the map: another one has its place
	local bool      // it has a local account
	heard time.Time // when the mirror may last have learned of it: what that knows is no younger
	again time.Time // when the shared store may be told of it again: that failed, or was a moment ago

	announced uint64 // the outage after which the shared store was told of it first

	telling chan struct{} // closed when the shared store was told of it; nil while it is not being told
	late    []admission   // here, since what it is being told was looked up
}

// An admission is a request that was admitted here.
type admission struct {
	request
	ratelimit.Decision

	counted bool // perhaps also by the shared store
}

func newTokens() *tokens {
	ts := new(tokens)
	for i := range ts.shards {
		ts.shards[i].known = make(map[string]*token)
	}
	return ts
}

// place is a number that all gateways have for a token, so that it goes back to the shared store on all of them at about one time.
func place(tokenID string) uint64 { return xxhash.Sum64String(tokenID) }

func (ts *tokens) shard(tokenID string) *shard { return &ts.shards[place(tokenID)%shards] }

// settled says whether the shared store may decide on the token at once.
func (ts *tokens) settled(tokenID string, ph *phase) bool {
	sh := ts.shard(tokenID)
	sh.mu.Lock()
	t, known := sh.known[tokenID]
	sh.mu.Unlock()
	if !known {
		return ph.way == owing
	}
	return t.settled.Load() >= ph.outage
}

// hold returns the token, locked. The caller unlocks it.
func (ts *tokens) hold(tokenID string) *token {
	sh := ts.shard(tokenID)
	for {
		sh.mu.Lock()
		t, known := sh.known[tokenID]
		if !known {
			t = new(token)
			sh.known[tokenID] = t
		}
		sh.mu.Unlock()
		t.mu.Lock()
		if !t.gone {
			return t
		}
		t.mu.Unlock()
	}
}

// await holds the token when the shared store is not being told of it, for which it waits no longer than a call may take.
func (ts *tokens) await(tokenID string) *token {
	for {
		t := ts.hold(tokenID)
		telling := t.telling
		if telling == nil {
			return t
		}
		t.mu.Unlock()
		<-telling
	}
}

// whileTelling lets go of a token that is held, for as long as the shared store is being told of it.
func (t *token) whileTelling(tell func()) {
	t.telling = make(chan struct{})
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		close(t.telling)
		t.telling = nil
	}()
	tell()
}

// each visits all tokens, locked, and forgets those that are not to be kept.
func (ts *tokens) each(keep func(tokenID string, t *token) bool) {
	for i := range ts.shards {
		ts.shards[i].each(keep)
	}
}

func (sh *shard) each(keep func(tokenID string, t *token) bool) {
	sh.mu.Lock()
	ids := make([]string, 0, len(sh.known))
	for id := range sh.known {
		ids = append(ids, id)
	}
	sh.mu.Unlock()
	for _, id := range ids { // one by one: nobody waits for a shard whose token waits for the shared store
		sh.mu.Lock()
		t, known := sh.known[id]
		sh.mu.Unlock()
		if !known {
			continue
		}
		t.mu.Lock()
		if !t.gone && !keep(id, t) {
			t.gone = true
			sh.mu.Lock()
			delete(sh.known, id)
			sh.mu.Unlock()
		}
		t.mu.Unlock()
	}
}
