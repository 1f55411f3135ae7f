package rehearsal

import (
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

const (
	// failEvery is how many logical requests without a write there are for each one that fails.
	failEvery = 3
	anywhere  = 20 // plans, after which not only pages of a list with more pages get new fields and values
	// maxPending bounds the plans that are kept for repeats that may never arrive.
	maxPending = 64

	maxRetryAfter = 2 // seconds
	minDelay      = 300 * time.Millisecond
	maxDelay      = 2 * time.Second
)

// A plan is what happens to a logical request.
type plan struct {
	failures   []Fault // of the next tries, in order
	change     Fault   // of the answer after the failures
	retryAfter int     // seconds
	delay      time.Duration
}

// A deck returns faults in rounds: within a round each fault is returned once, in an order that depends on the seed.
type deck struct {
	all, left []Fault
	random    *rand.Rand
}

// next returns the first fault of the round that applies, and starts a new round if there is none.
func (d *deck) next(applies func(Fault) bool) Fault {
	for range 2 {
		for i, fault := range d.left {
			if applies(fault) {
				d.left = append(d.left[:i:i], d.left[i+1:]...)
				return fault
			}
		}
		d.left = append([]Fault(nil), d.all...)
		d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	return ""
}

func always(Fault) bool { return true }

// cutTwice cuts two tries in a row inside the answer. HTTP libraries do not repeat such requests by themselves, so the pauses between the
// repeats are those of the client.
const cutTwice Fault = "cut twice"

// A schedule plans the disturbances of one token.
type schedule struct {
	random   *rand.Rand
	reads    deck
	writes   deck
	changes  deck
	phase    int // of the reads that fail
	numReads int
	numPlans int
	onPages  []Fault          // that pages have not got yet
	pending  map[string]*plan // by logical request, of those that await a repeat
	walked   map[string]bool  // lists with an ignored cursor
}

// newSchedule returns the schedule of a token. It depends on the seed and the token's name only.
func newSchedule(seed uint64, token string) *schedule {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(token)) // never fails
	random := rand.New(rand.NewPCG(seed, hash.Sum64()))
	s := &schedule{random: random, phase: random.IntN(failEvery), pending: make(map[string]*plan), walked: make(map[string]bool)}
	s.onPages = []Fault{NewField, NewValue}
	s.reads = deck{random: random, all: []Fault{RateLimited, Unavailable, CutBefore, CutInside, cutTwice}}
	s.writes = deck{random: random, all: []Fault{RateLimited, Unavailable, CutBefore, CutInside, cutTwice, ""}}
	s.changes = deck{random: random, all: []Fault{NewField, NewField, NewValue, Slow, Replay, "", ""}}
	// The first write is always executed without an answer: many clients write once only.
	s.writes.left = [][]Fault{{CutBefore}, {CutInside}}[random.IntN(2)]
	return s
}

// plan returns the plan of a logical request: that of its earlier tries, if any, else a new one.
func (s *schedule) plan(r request) *plan {
	if p := s.pending[r.id]; p != nil {
		return p
	}
	p := &plan{
		retryAfter: 1 + s.random.IntN(maxRetryAfter),
		delay:      minDelay + time.Duration(s.random.Int64N(int64(maxDelay-minDelay))),
	}
	s.numPlans++
	switch {
	case r.method == http.MethodPost:
		p.fail(s.writes.next(always))
	case r.cursor && !s.walked[r.path] && len(s.walked) < maxPending:
		// Once for each list: if it happened again and again, a long walk would never end.
		s.walked[r.path] = true
		p.change = IgnoredCursor
		return p
	default:
		if s.numReads%failEvery == s.phase {
			p.fail(s.reads.next(always))
		}
		s.numReads++
	}
	p.change = s.changes.next(func(f Fault) bool {
		switch f {
		case NewField:
			return s.numPlans > anywhere
		case NewValue:
			return s.numPlans > anywhere && r.method == http.MethodGet && len(openSets(r.path)) > 0
		case Replay:
			return r.method == http.MethodPost && r.key
		}
		return true
	})
	return p
}

// onPage returns the change of a page that is not the last. A client that goes on after a new field or value requests the next page.
func (s *schedule) onPage(planned Fault, openSet bool) Fault {
	for i, change := range s.onPages {
		if change == NewField || openSet {
			s.onPages = slices.Delete(s.onPages, i, i+1)
			return change
		}
	}
	return planned
}

func (p *plan) fail(f Fault) {
	switch f {
	case "":
	case cutTwice:
		p.failures = []Fault{CutInside, CutInside}
	default:
		p.failures = []Fault{f}
	}
}

// keep keeps the plan for a repeat of the request.
func (s *schedule) keep(r request, p *plan) {
	if len(s.pending) >= maxPending {
		clear(s.pending)
	}
	s.pending[r.id] = p
}

// end forgets the plan of a request that has its final answer.
func (s *schedule) end(r request) { delete(s.pending, r.id) }

// A request is what a schedule needs of a request.
type request struct {
	id     string // of the logical request
	method string
	path   string
	cursor bool // it asks for a page after the first
	key    bool // it has an Idempotency-Key
}
