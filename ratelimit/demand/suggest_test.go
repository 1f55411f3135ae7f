package demand_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

func suggested(t rapid.TB, events []demand.Event, o demand.SuggestOptions) *demand.Suggestion {
	t.Helper()
	s, err := demand.Suggest(sequence(events...), o)
	testkit.Must(t, err)
	return s
}

// drawDemand draws requests of three tokens of two teams, with resets, and with refunds if they are wanted.
func drawDemand(t *rapid.T, refunds bool) (events []demand.Event) {
	teams := []string{"harbour", "lighthouse", "harbour"}
	now := noon()
	for range rapid.IntRange(1, 60).Draw(t, "requests") {
		now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 30, 400, 2500}).Draw(t, "pause")) * time.Millisecond)
		k := rapid.IntRange(0, 2).Draw(t, "token")
		request := demand.Event{At: now, TokenID: fmt.Sprintf("tok_%d", k), TeamID: teams[k], Allowed: rapid.IntRange(0, 3).Draw(t, "allowed") > 0}
		if !request.Allowed {
			request.Denied = "second"
		}
		events = append(events, request)
		switch then := rapid.IntRange(0, 19).Draw(t, "then"); {
		case then == 0:
			events = append(events, demand.Event{At: now, TokenID: request.TokenID, Reset: true})
		case then < 4 && refunds && request.Allowed:
			events = append(events, demand.Event{At: now.Add(time.Millisecond), TokenID: request.TokenID, RefundOf: now})
		}
	}
	slices.SortStableFunc(events, func(x, y demand.Event) int { return x.At.Compare(y.At) })
	return events
}

// smaller calls f with each list of limits of which none is larger, and one is smaller.
func smaller(limits []ratelimit.Limit, f func([]ratelimit.Limit)) {
	list := slices.Clone(limits)
	var draw func(i int)
	draw = func(i int) {
		if i == len(limits) {
			if !slices.Equal(list, limits) {
				f(list)
			}
			return
		}
		for n := 1; n <= limits[i].Requests; n++ {
			list[i].Requests = n
			draw(i + 1)
		}
	}
	draw(0)
}

// meanDenied returns the part of its requests that a token of the class is denied on average, in percent, and the denied requests.
func meanDenied(t rapid.TB, events []demand.Event, class int, limits []ratelimit.Limit) (percent float64, denied uint64) {
	t.Helper()
	lax := policyOf(t, limit("second", 1000, time.Second))
	both := []*ratelimit.Policy{lax, lax}
	both[class] = policyOf(t, limits...)
	tokens := 0
	for _, k := range replayed(t, policies(t, both[0], both[1]), sequence(events...)).Tokens {
		if (k.TeamID == "harbour") == (class == 1) {
			percent += 100 * float64(k.After.Denied) / float64(k.Requests)
			denied += k.After.Denied
			tokens++
		}
	}
	return percent / float64(tokens), denied
}

// Of 101 or 9 tokens, one floods. The limits are those of the others. A busy customer among few sets them.
func TestAFlooderDoesNotRaiseTheSuggestedLimits(t *testing.T) {
	p := policies(t, policyOf(t, limit("second", 3, time.Second)), policyOf(t, limit("minute", 2, time.Minute)))
	flood := burst("tok_flood", "lighthouse", noon(), 2000)
	for _, tokens := range []int{100, 8} {
		var calm []demand.Event
		for i := range tokens {
			calm = append(calm, burst(fmt.Sprintf("tok_%d", i), "lighthouse", noon(), 3)...)
		}
		for _, percent := range []float64{0, 0.1, 5} {
			before := suggested(t, calm, demand.SuggestOptions{Policies: always(p), DenyAtMost: percent}).Classes[0]
			after := suggested(t, slices.Concat(calm, flood), demand.SuggestOptions{Policies: always(p), DenyAtMost: percent}).Classes[0]
			if !slices.Equal(before.Limits, after.Limits) || after.Limits[0].Requests != 3 {
				t.Errorf("%v %% of %d: %v became %v", percent, tokens, before.Limits, after.Limits)
			}
			if d := after.Denied; len(d) != 1 || d[0].TokenID != "tok_flood" || d[0].Denied != 1997 {
				t.Errorf("%v %% of %d: got %+v", percent, tokens, d)
			}
		}
	}
	few := slices.Concat(burst("tok_1", "lighthouse", noon(), 3), burst("tok_2", "lighthouse", noon(), 3), burst("tok_3", "lighthouse", noon(), 30))
	if got := suggested(t, few, demand.SuggestOptions{Policies: always(p)}).Classes[0].Limits[0].Requests; got != 30 {
		t.Errorf("with a busy customer: %d", got)
	}
}

// With refunds, smaller limits may deny less; the suggested ones deny no more than permitted.
func TestNoSmallerLimitsDenyAsLittleAsTheSuggestedOnes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		refunds := rapid.Bool().Draw(rt, "refunds")
		events := drawDemand(rt, refunds)
		p := policies(rt, policyOf(rt, limit("minute", 9, time.Minute), limit("second", 3, time.Second)), policyOf(rt, limit("moment", 1, 500*time.Millisecond)))
		percent := rapid.SampledFrom([]float64{0, 3, 10, 30}).Draw(rt, "at most")
		for i, c := range suggested(rt, events, demand.SuggestOptions{Policies: always(p), DenyAtMost: percent}).Classes {
			if c.Requests == 0 {
				continue
			}
			mean, denied := meanDenied(rt, events, i, c.Limits)
			if mean > percent+1e-6 || denied != c.DeniedRequests() {
				rt.Fatalf("class %d: %v deny %v %%: %+v", i, c.Limits, mean, c.Denied)
			}
			if refunds {
				continue
			}
			smaller(c.Limits, func(limits []ratelimit.Limit) {
				if mean, _ := meanDenied(rt, events, i, limits); mean <= percent {
					rt.Fatalf("class %d: %v deny %v %%, suggested %v", i, limits, mean, c.Limits)
				}
			})
		}
	})
}

func TestSuggestionNamesClassesLengthsAndTokens(t *testing.T) {
	shadow := limit("trial", 1, 10*time.Second)
	shadow.Shadow = true
	p := policies(t, policyOf(t, limit("short", 3, time.Second), shadow), policyOf(t, limit("minute", 2, time.Minute)))
	events := burst("tok_1", "lighthouse", noon(), 90)
	for i := range 8 {
		events = append(events, burst(fmt.Sprintf("tok_2%d", i), "lighthouse", noon().Add(time.Minute), 70)...)
	}
	got := suggested(t, events, demand.SuggestOptions{Policies: always(p), DenyAtMost: 2})
	want := []ratelimit.Limit{limit("short", 74, time.Second)} // 16 of 90 requests of one of nine tokens are denied: 1.98 %
	if c := got.Classes[0]; !slices.Equal(c.Limits, want) || c.DeniedRequests() != 16 || c.Tokens != 9 || c.Requests != 650 ||
		fmt.Sprint(c.Denied) != "[{tok_1 lighthouse 90 16}]" {
		t.Errorf("got %+v", c)
	}
	if c := got.Classes[1]; len(c.Limits) > 0 || c.Requests > 0 {
		t.Errorf("got %+v", c)
	}
	per := []time.Duration{time.Hour, time.Second}
	got = suggested(t, events, demand.SuggestOptions{Policies: always(p), DenyAtMost: 0, Per: per})
	want = []ratelimit.Limit{limit("short", 90, time.Second), limit("1h0m0s", 90, time.Hour)}
	if c := got.Classes[0]; !slices.Equal(c.Limits, want) || got.Window != time.Hour {
		t.Errorf("got %+v", c)
	}
	if c := suggested(t, events, demand.SuggestOptions{Policies: always(p), DenyAtMost: 100}).Classes[0]; c.Limits[0].Requests != 1 {
		t.Errorf("got %+v", c)
	}
}

func BenchmarkSuggest(b *testing.B) {
	benchmark(b, func(p *ratelimit.Policies, events []demand.Event) {
		suggested(b, events, demand.SuggestOptions{Policies: always(p), DenyAtMost: 0.1})
	})
}
