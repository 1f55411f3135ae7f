package heavyhitters

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// A tally is the exact count of each token, and of all of them.
type tally struct {
	requests, denied map[string]float64
	all              float64
}

func newTally() *tally { return &tally{requests: map[string]float64{}, denied: map[string]float64{}} }

func (t *tally) add(token string, denied bool) {
	t.requests[token]++
	t.all++
	if denied {
		t.denied[token]++
	}
}

func (t *tally) fade() {
	t.all /= 2
	for token := range t.requests {
		t.requests[token] /= 2
		t.denied[token] /= 2
	}
}

// What the paper promises of a sketch with k counters of n requests: no count is too low, none is too high by more than it says, that is at
// most n / k, and whoever made more than n / k of them has a counter.
func TestTheSketchKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		tokens := rapid.IntRange(1, 60).Draw(t, "tokens")
		s, exact := newShard(capacity), newTally()
		for range rapid.IntRange(0, 400).Draw(t, "requests") {
			if rapid.IntRange(0, 49).Draw(t, "fade") == 0 {
				s.fade()
				exact.fade()
			}
			number := rapid.IntRange(0, tokens-1).Draw(t, "token")
			if rapid.Bool().Draw(t, "again") {
				number %= 4
			}
			token, denied := strconv.Itoa(number), rapid.Bool().Draw(t, "denied")
			s.add(token, "team of "+token, denied)
			exact.add(token, denied)
		}
		holdTo(t, &s, exact)
	})
}

func holdTo(t *rapid.T, s *shard, exact *tally) {
	if len(s.counters) > cap(s.heap) || len(s.counters) != len(s.byToken) {
		t.Fatalf("%d counters for %d tokens, of %d", len(s.counters), len(s.byToken), cap(s.heap))
	}
	listed := make(map[string]bool)
	most := exact.all/float64(cap(s.heap)) + rounding
	for _, e := range s.appendEntries(nil) {
		listed[e.TokenID] = true
		requests, denied := exact.requests[e.TokenID], exact.denied[e.TokenID]
		if float64(e.Requests) < requests-rounding || float64(e.Requests-e.Error) > requests+rounding {
			t.Fatalf("%+v, but there were %v", e, requests)
		}
		if float64(e.Denied+e.Error) < denied-rounding || float64(e.Denied) > denied+1 || e.Denied > e.Requests {
			t.Fatalf("%+v, but %v were denied", e, denied)
		}
		if float64(e.Error) > most+2 { // both bounds are rounded to whole numbers
			t.Fatalf("%+v of %v requests", e, exact.all)
		}
		if e.TeamID != "team of "+e.TokenID {
			t.Fatalf("%+v", e)
		}
	}
	for token, n := range exact.requests {
		if n > max(most, faint) && !listed[token] {
			t.Fatalf("%s made %v of %v requests and is not listed", token, n, exact.all)
		}
	}
}
