package ratelimit

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// A field is an array, whatever its width and wherever it begins, and leaves its neighbours alone.
func TestFieldsAreArrays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fields []field
		var model [][]uint64
		bits := uint32(0)
		for range rapid.IntRange(1, 4).Draw(t, "fields") {
			f := field{offset: bits, bits: rapid.Uint32Range(1, 63).Draw(t, "bits")}
			n := rapid.IntRange(1, 64).Draw(t, "numbers")
			bits += uint32(n) * f.bits
			fields, model = append(fields, f), append(model, make([]uint64, n))
		}
		words := make([]uint64, (bits+wordBits-1)/wordBits)
		for range 100 {
			k := rapid.IntRange(0, len(fields)-1).Draw(t, "field")
			i := rapid.IntRange(0, len(model[k])-1).Draw(t, "index")
			v := rapid.Uint64Range(0, fields[k].limit()).Draw(t, "value")
			fields[k].set(words, i, v)
			model[k][i] = v
		}
		for k, f := range fields {
			for i, want := range model[k] {
				if got := f.get(words, i); got != want {
					t.Fatalf("number %d of field %d is %d, want %d", i, k, got, want)
				}
			}
		}
	})
}

func TestTwoLimitsFitWhateverTheyAre(t *testing.T) {
	largest := Limit{"long", maxRequests, maxPer}
	for _, other := range []int{1, MaxExact, MaxExact + 1, maxRequests} {
		if _, err := NewPolicy([]Limit{{"short", other, time.Second}, largest}); err != nil {
			t.Errorf("%d requests beside the largest limit: %v", other, err)
		}
	}
	if n := unsafe.Sizeof(state{}); n > 104 {
		t.Errorf("a state without what it remembers is %d bytes", n)
	}
}

// anyPolicy draws limits until a policy takes them.
func anyPolicy(t *rapid.T) *Policy {
	pers := []time.Duration{time.Millisecond, 700 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, maxPer}
	requests := rapid.OneOf(rapid.IntRange(1, MaxExact), rapid.IntRange(MaxExact+1, 10_000), rapid.IntRange(1, maxRequests))
	limit := rapid.Custom(func(t *rapid.T) Limit {
		per := rapid.SampledFrom(pers).Draw(t, "per")
		return Limit{Name: per.String(), Requests: requests.Draw(t, "requests"), Per: per}
	})
	limits := rapid.SliceOfNDistinct(limit, 1, MaxLimits, func(l Limit) string { return l.Name })
	for {
		if p, err := NewPolicy(limits.Draw(t, "limits")); err == nil {
			return p
		}
	}
}

// However much was spent and whatever policies came one after the other, a state stays within its bound.
func TestStatesStayWithinTheirBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := int64(origin)
		p := anyPolicy(t)
		s := newState(p.layout, now)
		for range rapid.IntRange(1, 5).Draw(t, "policies") {
			for range rapid.IntRange(0, 300).Draw(t, "requests") {
				s.decide(now)
				now += rapid.SampledFrom([]int64{0, 0, 1, int64(time.Second)}).Draw(t, "gap")
			}
			s = s.rebased(anyPolicy(t), now)
			if got := s.layout.bytes(); got > MaxStateBytes || len(s.words) != s.layout.words {
				t.Fatalf("%d bytes", got)
			}
		}
	})
}

// Where a counter has no room left, it stays at its largest: more than the limit, so that the limit holds.
func TestCountersThatAreFullHoldTheLimit(t *testing.T) {
	limits := []Limit{{"second", 100, time.Second}, {"minute", 5_000, time.Minute}, {"hour", 50_000, time.Hour}, {"day", 200_000, 24 * time.Hour}}
	p, err := NewPolicy(limits)
	if err != nil {
		t.Fatal(err)
	}
	now := int64(origin)
	s := newState(p.layoutFor([]spending{{now, maxRequests}}, now), now)
	if s.layout != p.layout {
		t.Fatalf("%d bytes fit", s.layout.bytes())
	}
	for i := range limits {
		s.ring(i).add(now, maxRequests)
	}
	if d := s.decide(now); d.Allowed || slices.ContainsFunc(d.Budgets[:], func(b Budget) bool { return b.Remaining > 0 }) {
		t.Errorf("after %d requests: %+v", maxRequests, d)
	}
}
