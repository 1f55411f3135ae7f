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
	largest := Limit{Name: "long", Requests: maxRequests, Per: maxPer}
	for _, other := range []int{1, MaxExact, MaxExact + 1, maxRequests} {
		if _, err := NewPolicy([]Limit{{Name: "short", Requests: other, Per: time.Second}, largest}); err != nil {
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
		shadow := rapid.IntRange(0, 3).Draw(t, "shadow") == 0
		return Limit{Name: per.String(), Requests: requests.Draw(t, "requests"), Per: per, Shadow: shadow}
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
		now := int64(1 << 60)
		p := anyPolicy(t)
		a := newAccount(p, now)
		for range rapid.IntRange(1, 5).Draw(t, "policies") {
			for range rapid.IntRange(0, 300).Draw(t, "requests") {
				a.decide(now)
				now += rapid.SampledFrom([]int64{0, 0, 1, int64(time.Second)}).Draw(t, "gap")
			}
			a = a.rebase(anyPolicy(t), now)
			got := a.layout.bytes()
			if a.shadow != nil {
				got += a.shadow.layout.bytes()
			}
			if got > MaxStateBytes || len(a.words) != a.layout.words {
				t.Fatalf("%d bytes", got)
			}
		}
	})
}

// Where a counter has no room left, it stays at its largest: more than the limit, so that the limit holds.
func TestCountersThatAreFullHoldTheLimit(t *testing.T) {
	limits := []Limit{{Name: "second", Requests: 100, Per: time.Second}, {Name: "minute", Requests: 5_000, Per: time.Minute}, {Name: "hour", Requests: 50_000, Per: time.Hour}, {Name: "day", Requests: 200_000, Per: 24 * time.Hour}}
	p, err := NewPolicy(limits)
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1 << 60)
	if l := p.enforced.layoutFor([]spending{{now, maxRequests}}, now); l != p.enforced.layout {
		t.Fatalf("%d bytes fit", l.bytes())
	}
	a := newAccount(p, now)
	for i := range limits {
		a.ring(i).add(now, maxRequests)
	}
	if d := a.decide(now); d.Allowed || slices.ContainsFunc(d.Budgets[:], func(b Budget) bool { return b.Remaining > 0 }) {
		t.Errorf("after %d requests: %+v", maxRequests, d)
	}
}
