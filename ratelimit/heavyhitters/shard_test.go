package heavyhitters

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// A tally is the exact count of each token, and the sum of all counts.
type tally struct {
	requests, denied map[string]float64
	sum              float64
}

func newTally() *tally { return &tally{requests: map[string]float64{}, denied: map[string]float64{}} }

func (t *tally) add(token string, denied bool) {
	t.requests[token]++
	t.sum++
	if denied {
		t.denied[token]++
	}
}

func (t *tally) decay() {
	t.sum /= 2
	for token := range t.requests {
		t.requests[token] /= 2
		t.denied[token] /= 2
	}
}

// The guarantees of the paper for k counters and n requests: no count is too low, none is too high
// by more than its error, which is at most n / k, and every token with more than n / k requests has
// a counter.
func TestShardKeepsTheGuaranteesOfTheSketch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		tokens := rapid.IntRange(1, 60).Draw(t, "tokens")
		s, exact := &shard{counters: make([]Entry, 0, capacity), byToken: map[string]int{}}, newTally()
		for range rapid.IntRange(0, 400).Draw(t, "requests") {
			if rapid.IntRange(0, 49).Draw(t, "decay") == 0 {
				s.decay()
				exact.decay()
			}
			number := rapid.IntRange(0, tokens-1).Draw(t, "token")
			if rapid.Bool().Draw(t, "again") {
				number %= 4
			}
			token, denied := strconv.Itoa(number), rapid.Bool().Draw(t, "denied")
			s.add(Token{TokenID: token, TeamID: "team of " + token}, denied)
			exact.add(token, denied)
		}
		compare(t, s, exact)
	})
}

// halved is more than the rounding error of a count.
const halved = 1e-6

func compare(t *rapid.T, s *shard, exact *tally) {
	if len(s.counters) > cap(s.counters) || len(s.counters) != len(s.byToken) {
		t.Fatalf("%d counters for %d tokens", len(s.counters), len(s.byToken))
	}
	counted := make(map[string]bool)
	maxError := exact.sum/float64(cap(s.counters)) + halved
	for _, e := range s.counters {
		counted[e.TokenID] = true
		requests, denied := exact.requests[e.TokenID], exact.denied[e.TokenID]
		if e.Requests < requests-halved || e.Requests-e.Error > requests+halved {
			t.Fatalf("got %+v, with %v requests", e, requests)
		}
		if e.Denied+e.Error < denied-halved || e.Denied > denied+halved {
			t.Fatalf("got %+v, with %v denied", e, denied)
		}
		if e.Error > maxError {
			t.Fatalf("got %+v, with %v requests of all tokens", e, exact.sum)
		}
		if e.TeamID != "team of "+e.TokenID {
			t.Fatalf("got %+v", e)
		}
	}
	for token, n := range exact.requests {
		if n > maxError && !counted[token] {
			t.Fatalf("%s has %v of %v requests and no counter", token, n, exact.sum)
		}
	}
}
