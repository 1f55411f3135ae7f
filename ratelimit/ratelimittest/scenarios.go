package ratelimittest

import (
	"fmt"
	"testing"
	"time"

	"opsgate/ratelimit"
)

// Token buckets and fixed windows of three per second can admit up to six within one second.
func noSecondHasMoreThanThree(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	var admitted []time.Time
	for range 10_000 {
		if d := s.decide(t, "t", p); d.Allowed {
			admitted = append(admitted, d.At)
		}
		s.Advance(3 * time.Millisecond)
	}
	if len(admitted) < 88 || len(admitted) > 90 {
		t.Errorf("%d admitted in 30 s", len(admitted))
	}
	for i := 3; i < len(admitted); i++ {
		if gap := admitted[i].Sub(admitted[i-3]); gap < time.Second {
			t.Fatalf("four within %v", gap)
		}
	}
}

// Three requests per second for two hours: 5000 are admitted before the first denial by the hourly limit, and no hour has more.
func evenRate(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	var admitted []time.Time
	beforeFirst := -1
	for range 3 * 2 * 3600 {
		d := s.decide(t, "t", p)
		switch {
		case d.Allowed:
			admitted = append(admitted, d.At)
		case d.DeniedBy == 1 && beforeFirst < 0:
			beforeFirst = len(admitted)
		}
		s.Advance(334 * time.Millisecond)
	}
	if beforeFirst != 5000 {
		t.Errorf("%d admitted before the first denial by the hourly limit", beforeFirst)
	}
	for i := 5000; i < len(admitted); i++ {
		if gap := admitted[i].Sub(admitted[i-5000]); gap < time.Hour {
			t.Fatalf("5001 within %v", gap)
		}
	}
	if len(admitted) < 9900 {
		t.Errorf("%d admitted in two hours: too cautious", len(admitted))
	}
	t.Logf("%d admitted before the first denial by the hourly limit, %d in two hours, never more than 5000 in one", beforeFirst, len(admitted))
}

func noDenialAfterRetryAfter(t *testing.T, s Subject) {
	p := Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "minute", Requests: 100, Per: time.Minute})
	for waits := 0; waits < 2000; {
		d := s.decide(t, "t", p)
		if d.Allowed {
			s.Advance(10 * time.Millisecond)
			continue
		}
		waits++
		s.Advance((d.RetryAfter + time.Second - 1).Truncate(time.Second)) // retry-after is in whole seconds
		if d := s.decide(t, "t", p); !d.Allowed {
			t.Fatalf("denied after retry-after, wait %d: %+v", waits, d)
		}
	}
	t.Log("no denial after 2000 waits for two limits")
}

func denialsRecordNothing(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	admitted := 0
	var last ratelimit.Decision
	for range 10_000 {
		d := s.decide(t, "t", p)
		if d.Allowed {
			admitted++
		}
		if got := d.Budgets[1].Remaining; got != 5000-admitted {
			t.Fatalf("%d remain of the hour after %d admissions", got, admitted)
		}
		last = d
		s.Advance(time.Millisecond)
	}
	if admitted != 30 || last.Allowed {
		t.Errorf("%d admitted in 10 s", admitted)
	}
	t.Logf("%d of 10,000 admitted", admitted)
}

func raiseAndLowerLimits(t *testing.T, s Subject) {
	three, ten := defaultPolicy(t), Policy(t, ratelimit.Limit{Name: "second", Requests: 10, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour})
	admit := func(p *ratelimit.Policy) (n int) {
		for s.decide(t, "t", p).Allowed {
			n++
		}
		return n
	}
	if n := admit(three); n != 3 {
		t.Fatalf("%d at three a second", n)
	}
	if n := admit(ten); n != 7 {
		t.Fatalf("%d more at ten a second", n)
	}
	if n := admit(three); n != 0 {
		t.Fatalf("%d more at three a second again", n)
	}
	if n := admit(ten); n != 0 {
		t.Fatalf("%d more at ten again: usage was lost", n)
	}
	if d := s.decide(t, "t", ten); d.Budgets[1].Remaining != 4990 {
		t.Errorf("%d remain of the hour", d.Budgets[1].Remaining)
	}
	s.Advance(time.Second)
	if n := admit(three); n != 3 {
		t.Errorf("%d a second later", n)
	}
}

func refunds(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	var last ratelimit.Decision
	for range 3 {
		last = s.decide(t, "t", p)
		s.Advance(time.Millisecond)
	}
	denied := s.decide(t, "t", p)
	s.refund(t, "t", p, denied)
	if s.decide(t, "t", p).Allowed {
		t.Fatal("a refund of a denial raised the remaining")
	}
	s.refund(t, "t", p, last)
	s.refund(t, "other", p, last)
	d := s.decide(t, "t", p)
	if !d.Allowed || d.Budgets[1].Remaining != 4997 || s.decide(t, "t", p).Allowed {
		t.Fatalf("after one refund: %+v", d)
	}
	s.Advance(2 * time.Hour)
	s.refund(t, "t", p, d)
	if d := s.decide(t, "t", p); d.Budgets[0].Remaining != 2 || d.Budgets[1].Remaining != 4999 {
		t.Errorf("a refund of an expired admission raised the remaining: %+v", d.Budgets)
	}
}

// All three are admitted at the same time, so that their times do not distinguish them.
func refundsOfOneInstant(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	first := s.decide(t, "t", p)
	s.decide(t, "t", p)
	s.decide(t, "t", p)
	s.refund(t, "t", p, first)
	admitted := 3
	for range 100 {
		if s.decide(t, "t", p).Allowed {
			admitted++
		}
	}
	if admitted != 4 {
		t.Errorf("%d admitted in a second, one of them refunded", admitted)
	}
}

// The refunded admission is one of many, most of them newer.
func refundAmongManyAdmissions(t *testing.T, s Subject) {
	before, p := defaultPolicy(t), Policy(t, ratelimit.Limit{Name: "minute", Requests: 1000, Per: time.Minute})
	s.decide(t, "t", before)
	s.Advance(time.Millisecond)
	refunded := s.decide(t, "t", p)
	for range 150 {
		s.Advance(time.Millisecond)
		s.decide(t, "t", p)
	}
	s.refund(t, "t", p, refunded)
	if d := s.peek(t, "t", p); d.Budgets[0].Remaining != 1000-151 {
		t.Errorf("152 admitted, one of them refunded: %+v", d)
	}
}

// A request was admitted before a change of policy, and is refunded after it.
func refundAcrossAChange(t *testing.T, s Subject) {
	three, ten := defaultPolicy(t), Policy(t, ratelimit.Limit{Name: "second", Requests: 10, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour})
	first := s.decide(t, "t", three)
	s.decide(t, "t", ten)
	s.refund(t, "t", three, first)
	if d := s.decide(t, "t", ten); d.Budgets[0].Remaining != 8 || d.Budgets[1].Remaining != 4998 {
		t.Errorf("three admitted, one of them refunded: %+v", d.Budgets)
	}
}

// Usage under a large limit is kept while a smaller, exact one applies.
func acrossTheExactBound(t *testing.T, s Subject) {
	limit := func(requests int) *ratelimit.Policy {
		return Policy(t, ratelimit.Limit{Name: "minute", Requests: requests, Per: time.Minute})
	}
	large, small := limit(1000), limit(ratelimit.MaxExact)
	for range 900 {
		s.decide(t, "t", large)
	}
	s.Advance(time.Second)
	if d := s.decide(t, "t", small); d.Allowed || d.Budgets[0].Remaining != 0 {
		t.Fatalf("900 admitted, limit %d: %+v", ratelimit.MaxExact, d)
	}
	if d := s.decide(t, "t", large); !d.Allowed || d.Budgets[0].Remaining != 99 {
		t.Errorf("900 of 1000 admitted, and then one more: %+v", d)
	}
	s.Advance(2 * time.Minute)
	if d := s.decide(t, "t", small); !d.Allowed || d.Budgets[0].Remaining != ratelimit.MaxExact-1 {
		t.Errorf("after the window: %+v", d)
	}
}

// After a step back of the clock, a token waits for one window at most.
func clockSetBack(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	for range 3 {
		s.decide(t, "t", p)
	}
	s.Advance(-365 * 24 * time.Hour)
	d := s.decide(t, "t", p)
	if d.Allowed || d.RetryAfter > time.Second {
		t.Fatalf("a year back: %+v", d)
	}
	s.Advance(d.RetryAfter)
	if d := s.decide(t, "t", p); !d.Allowed || d.Budgets[1].Remaining != 4996 {
		t.Errorf("a window later: %+v", d)
	}
}

func independentTokens(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	for i := range 1000 {
		for n := range 3 {
			if d := s.decide(t, fmt.Sprint("token-", i), p); !d.Allowed || d.Budgets[0].Remaining != 2-n {
				t.Fatalf("token %d: %+v", i, d)
			}
		}
	}
}

func peeks(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	for range 10 {
		if d := s.peek(t, "t", p); !d.Allowed || d.Budgets[0].Remaining != 3 || d.Budgets[1].Remaining != 5000 {
			t.Fatalf("before the first request: %+v", d)
		}
	}
	for range 3 {
		s.decide(t, "t", p)
	}
	for range 10 {
		if d := s.peek(t, "t", p); d.Allowed || d.DeniedBy != 0 || d.RetryAfter != time.Second || d.Budgets[1].Remaining != 4997 {
			t.Fatalf("after three: %+v", d)
		}
	}
	wider := Policy(t, ratelimit.Limit{Name: "second", Requests: 4, Per: time.Second})
	if d := s.peek(t, "t", wider); !d.Allowed || d.Budgets[0].Remaining != 1 {
		t.Errorf("under another policy: %+v", d)
	}
}

func resets(t *testing.T, s Subject) {
	p := defaultPolicy(t)
	var admitted ratelimit.Decision
	for range 3 {
		admitted = s.decide(t, "t", p)
		s.decide(t, "other", p)
		s.Advance(time.Millisecond)
	}
	s.reset(t, "t")
	s.reset(t, "unknown")
	if d := s.decide(t, "t", p); !d.Allowed || d.Budgets[0].Remaining != 2 || d.Budgets[1].Remaining != 4999 {
		t.Fatalf("after the reset: %+v", d)
	}
	s.refund(t, "t", p, admitted)
	if d := s.peek(t, "t", p); d.Budgets[1].Remaining != 4999 {
		t.Errorf("an admission from before the reset was refunded after it: %+v", d)
	}
	if d := s.decide(t, "other", p); d.Allowed {
		t.Error("another token was reset as well")
	}
}

// Ten per second are enforced, and three per second are in shadow.
func limitsInShadow(t *testing.T, s Subject) {
	second := ratelimit.Limit{Name: "second", Requests: 10, Per: time.Second}
	p := Policy(t, shadow(ratelimit.Limit{Name: "tried", Requests: 3, Per: time.Second}), second, shadow(ratelimit.Limit{Name: "hourly", Requests: 100, Per: time.Hour}))
	admitted, shadowed := 0, 0
	for range 30_000 / 7 {
		d := s.decide(t, "t", p)
		if d.Allowed {
			admitted++
		}
		if d.ShadowDeniedBy == 0 {
			shadowed++
		}
		if d.DeniedBy >= 0 && d.DeniedBy != 1 {
			t.Fatalf("denied by limit %d", d.DeniedBy)
		}
		s.Advance(7 * time.Millisecond)
	}
	// In 30 seconds, 300 are admitted, 90 of them in shadow.
	if admitted < 295 || admitted > 300 || admitted-shadowed < 88 || admitted-shadowed > 90 {
		t.Errorf("%d admitted, %d of them shadowed", admitted, shadowed)
	}
	if d := s.peek(t, "t", p); d.Budgets[2].Remaining != 100-(admitted-shadowed) {
		t.Errorf("%d of the hour remain in shadow, after %d admissions in shadow", d.Budgets[2].Remaining, admitted-shadowed)
	}
}

func enterAndLeaveShadow(t *testing.T, s Subject) {
	second := ratelimit.Limit{Name: "second", Requests: 1000, Per: time.Second}
	minute := ratelimit.Limit{Name: "minute", Requests: 50, Per: time.Minute}
	alone, tried, enforced := Policy(t, second), Policy(t, second, shadow(minute)), Policy(t, second, minute)
	request := func(p *ratelimit.Policy, n int) (d ratelimit.Decision) {
		for range n {
			d = s.decide(t, "t", p)
		}
		return d
	}
	request(alone, 10)
	if d := request(tried, 1); d.Budgets[1].Remaining != 39 {
		t.Fatalf("10 admitted before the limit, 1 after: %+v", d)
	}
	s.Advance(30 * time.Second)
	if d := request(tried, 10); d.ShadowDeniedBy != -1 || d.Budgets[1].Remaining != 29 {
		t.Fatalf("21 admitted: %+v", d)
	}
	s.Advance(2 * time.Second)
	if d := request(enforced, 1); !d.Allowed || d.Budgets[1].Remaining != 28 {
		t.Fatalf("22 admitted, the last one under the enforced limit: %+v", d)
	}
}

// A machine without a battery for its clock starts in 1970, when the numbers of buckets are small.
func clockAtTheEpoch(t *testing.T, s Subject) {
	p, fewer := defaultPolicy(t), Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 100, Per: time.Hour})
	s.Advance(-s.Now().Sub(time.Unix(1, 0)))
	for range 3 {
		s.decide(t, "t", p)
	}
	if d := s.decide(t, "t", p); d.Allowed {
		t.Fatalf("fourth request: %+v", d)
	}
	if d := s.decide(t, "t", fewer); d.Allowed || d.Budgets[1].Remaining != 97 {
		t.Errorf("after a change of policy: %+v", d)
	}
}
