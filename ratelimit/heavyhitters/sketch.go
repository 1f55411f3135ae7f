package heavyhitters

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

const (
	shards   = 64
	perShard = 64 // counters of a shard, some 150 bytes each and the ids and names of their tokens
)

// A Sketch counts requests of tokens in shards. It is safe for concurrent use.
type Sketch struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu       sync.Mutex
	counters []Entry
	byToken  map[string]int // the index of each token's counter
}

// A Token has the ids of a token and its team, and their names at its last request.
type Token struct{ TokenID, TeamID, TokenName, TeamName, LimitClass string }

// An Entry is the decayed count of one token.
type Entry struct {
	Token

	Requests float64 // never too low
	Denied   float64 // of the requests; too low by at most Error
	Error    float64 // by which Requests may be too high
}

// New returns an empty sketch.
func New() *Sketch {
	s := &Sketch{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].counters, s.shards[i].byToken = make([]Entry, 0, perShard), make(map[string]int, perShard)
	}
	return s
}

// Add counts a request. It allocates nothing once all counters are in use, and keeps the strings.
func (s *Sketch) Add(t Token, denied bool) {
	s.shards[maphash.String(s.seed, t.TokenID)%shards].add(t, denied)
}

func (sh *shard) add(t Token, denied bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i, counted := sh.byToken[t.TokenID]
	if !counted {
		i = sh.replace(Entry{Token: t})
	}
	sh.counters[i].Token = t
	sh.counters[i].Requests++
	if denied {
		sh.counters[i].Denied++
	}
}

// replace returns the index of a counter for a new token: an unused one, or else the smallest,
// whose count becomes the error of the new one.
func (sh *shard) replace(e Entry) int {
	if n := len(sh.counters); n < cap(sh.counters) {
		sh.counters, sh.byToken[e.TokenID] = append(sh.counters, e), n
		return n
	}
	smallest := 0
	for i, c := range sh.counters {
		if c.Requests < sh.counters[smallest].Requests {
			smallest = i
		}
	}
	old := sh.counters[smallest]
	e.Requests, e.Error = old.Requests, old.Requests
	delete(sh.byToken, old.TokenID)
	sh.counters[smallest], sh.byToken[e.TokenID] = e, smallest
	return smallest
}

// Top returns the n tokens with the highest counts, in descending order, or fewer if fewer are
// listed.
func (s *Sketch) Top(n int) []Entry {
	var all []Entry
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		all = append(all, sh.counters...)
		sh.mu.Unlock()
	}
	all = slices.DeleteFunc(all, func(e Entry) bool { return e.Requests < 0.5 })
	slices.SortFunc(all, func(x, y Entry) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Error, y.Error), cmp.Compare(x.TokenID, y.TokenID))
	})
	return slices.Clip(all[:max(0, min(n, len(all)))])
}

// Run halves all counts every minute until ctx ends, and then returns nil.
func (s *Sketch) Run(ctx context.Context) error {
	for tick := time.Tick(time.Minute); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
			for i := range s.shards {
				s.shards[i].decay()
			}
		}
	}
}

func (sh *shard) decay() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i, c := range sh.counters {
		sh.counters[i].Requests, sh.counters[i].Denied, sh.counters[i].Error = c.Requests/2, c.Denied/2, c.Error/2
	}
}
