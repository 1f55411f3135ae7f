package heavyhitters

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	halfLife = time.Minute
	capacity = 4096 // counters of a sketch, some 120 bytes each and the ids of their tokens

	shards = 64
	// minListed is the count below which a token is not listed.
	minListed = 0.5
	// rounding is more than the rounding error of a count.
	rounding = 1e-6
)

// A Sketch counts requests of tokens. It is safe for concurrent use. Each token belongs to one of 64 shards, which share nothing: a token
// with more than a 64th of the requests of its shard always has a counter.
type Sketch struct {
	seed   maphash.Seed
	shards [shards]lockedShard
}

type lockedShard struct {
	mu sync.Mutex
	shard
}

// An Entry is the decayed count of one token.
type Entry struct {
	TokenID, TeamID string
	Requests        uint64 // never too low
	Denied          uint64 // of the requests; too low by at most Error
	Error           uint64 // by which Requests may be too high
}

// New returns an empty sketch.
func New() *Sketch { return newSketch(capacity) }

// newSketch returns an empty sketch. Its capacity, the number of counters, is rounded up to a multiple of 64.
func newSketch(capacity int) *Sketch {
	s := &Sketch{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].shard = newShard((capacity + shards - 1) / shards)
	}
	return s
}

// Add counts a request. It allocates nothing once all counters are in use, and keeps the strings.
func (s *Sketch) Add(tokenID, teamID string, denied bool) {
	sh := &s.shards[maphash.String(s.seed, tokenID)%shards]
	sh.mu.Lock()
	sh.add(tokenID, teamID, denied)
	sh.mu.Unlock()
}

// Top returns the n tokens with the highest counts, in descending order, or fewer if fewer are listed.
func (s *Sketch) Top(n int) []Entry {
	var all []Entry
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		all = sh.appendEntries(all)
		sh.mu.Unlock()
	}
	slices.SortFunc(all, func(x, y Entry) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Error, y.Error), cmp.Compare(x.TokenID, y.TokenID))
	})
	return slices.Clip(all[:max(0, min(n, len(all)))])
}

// Run halves all counts every minute until ctx ends, and then returns nil.
func (s *Sketch) Run(ctx context.Context) error {
	tick := time.NewTicker(halfLife)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.decay()
		}
	}
}

// decay halves all counts.
func (s *Sketch) decay() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.decay()
		sh.mu.Unlock()
	}
}

// roundUp rounds a count up, as it must not be too low.
func roundUp(count float64) uint64 { return uint64(math.Ceil(max(0, count-rounding))) }
