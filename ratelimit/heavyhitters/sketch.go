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
	// HalfLife is how long it takes until a request counts half as much.
	HalfLife = time.Minute
	// DefaultCapacity is how many tokens are counted at once where nobody says so.
	DefaultCapacity = 4096

	shards = 64
	// faint is the count below which a token is not listed: it was heard of some time ago.
	faint = 0.5
	// rounding is more than what adding and halving of counts may round off.
	rounding = 1e-6
)

// Options are what a Sketch is made of.
type Options struct {
	Capacity int // tokens that are counted at once, some 120 bytes each and their ids; 0 for DefaultCapacity. Rounded up to a multiple of 64.
}

// A Sketch counts requests of tokens. It is safe for concurrent use. Each token belongs to one of 64 parts that share nothing: one
// that makes more than 64 / Capacity of the requests of its part surely has a counter.
type Sketch struct {
	seed   maphash.Seed
	shards [shards]lockedShard
}

type lockedShard struct {
	mu sync.Mutex
	shard
}

// An Entry is what was counted of one token, each request at its weight.
type Entry struct {
	TokenID, TeamID string
	Requests        uint64 // never too low
	Denied          uint64 // of the requests; too low by at most Error
	Error           uint64 // by how much Requests may be too high
}

// New returns a sketch that has counted nothing.
func New(o Options) *Sketch {
	capacity := o.Capacity
	if capacity <= 0 {
		capacity = DefaultCapacity
	}
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

// Top returns the n tokens that asked most of late, at most, the noisiest first.
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

// Run fades the counts every [HalfLife] until ctx ends, and then returns nil.
func (s *Sketch) Run(ctx context.Context) error {
	tick := time.NewTicker(HalfLife)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.Fade()
		}
	}
}

// Fade halves all counts.
func (s *Sketch) Fade() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.fade()
		sh.mu.Unlock()
	}
}

// whole rounds a count up, as it must not be too low.
func whole(count float64) uint64 { return uint64(math.Ceil(max(0, count-rounding))) }
