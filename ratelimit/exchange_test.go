package ratelimit_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
)

// alone decides as the only gateway, without a shared store.
func alone(p *ratelimit.Policy, own ratelimit.Account, at time.Time) (ratelimit.Account, ratelimit.Decision) {
	return p.DecideShare(1, nil, own, nil, at, false)
}

// drawAccount records requests at drawn times in the minute before now.
func drawAccount(t *rapid.T, p *ratelimit.Policy, now time.Time) (a ratelimit.Account) {
	at := now.Add(-time.Minute)
	for range rapid.IntRange(0, 60).Draw(t, "requests") {
		at = at.Add(time.Duration(rapid.IntRange(0, 1_900).Draw(t, "gap")) * time.Millisecond)
		if at.After(now) {
			break
		}
		a, _ = alone(p, a, at)
	}
	return a
}

// used returns the number of admissions that count in a limit.
func used(p *ratelimit.Policy, a ratelimit.Account, i int, now time.Time) int {
	_, _, d := p.ExecuteExchange(a, ratelimit.Exchange{Op: ratelimit.OpPeek}, now)
	return p.Limits()[i].Requests - d.Budgets[i].Remaining
}

// The two accounts may be of different policies. A window of the sum counts each admission that an
// account with the window has, and those of an account without it that its other windows show: at
// most a sixtieth of the window that it is filled from too long.
func TestSumCountsEachAdmissionOnce(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	minute, ten := limit("minute", 300, time.Minute), limit("ten", 200, 10*time.Second)
	policies := []*ratelimit.Policy{
		ratelimittest.Policy(t, limit("second", 20, time.Second), minute, shadow(limit("tried", 64, time.Minute))),
		ratelimittest.Policy(t, ten, limit("hour", 5000, time.Hour)),
	}
	rapid.Check(t, func(t *rapid.T) {
		ofA, ofB := rapid.SampledFrom(policies).Draw(t, "policy"), rapid.SampledFrom(policies).Draw(t, "policy")
		a, b := drawAccount(t, ofA, now), drawAccount(t, ofB, now)
		sum, reversed := ratelimit.Sum(a, b, now), ratelimit.Sum(b, a, now)
		for _, p := range []*ratelimit.Policy{ofA, ofB} {
			for i, l := range p.Limits() {
				n, want := used(p, sum, i, now), used(p, a, i, now)+used(p, b, i, now)
				if n != min(want, l.Requests) || used(p, reversed, i, now) != n {
					t.Fatalf("limit %s: %d and %d add up to %d, reversed %d", l.Name, used(p, a, i, now), used(p, b, i, now), n, used(p, reversed, i, now))
				}
			}
		}
	})
}

func TestDecisionRefusesContradictingAccounts(t *testing.T) {
	p, now := specified(t), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var full ratelimit.Account
	for range 3 {
		full, _ = alone(p, full, now)
	}
	one, _ := alone(p, nil, now)
	another, _ := alone(ratelimittest.Policy(t, limit("minute", 10, time.Minute)), nil, now)
	const timeAt, bucketAt = 2 + 21, 2 + 21 + 7 + 21 // of its admission, 7 bytes; of the number of the newest bucket
	change := func(at int, to ...byte) ratelimit.Account {
		return append(append(bytes.Clone(one[:at]), to...), one[at+len(to):]...)
	}
	for name, c := range map[string]struct {
		account ratelimit.Account
		outcome ratelimit.Outcome
		ok      bool
	}{
		"denied, and full":               {full, ratelimit.Denied, true},
		"denied, and not full":           {one, ratelimit.Denied, false},
		"admitted as the last":           {full, ratelimit.Admitted, true},
		"a peek":                         {full, ratelimit.Peeked, true},
		"no account":                     {nil, ratelimit.Admitted, false},
		"an account of another policy":   {another, ratelimit.Admitted, false},
		"an account with a byte more":    {append(bytes.Clone(one), 0), ratelimit.Admitted, false},
		"an account with a byte missing": {one[:len(one)-1], ratelimit.Admitted, false},
		"a time in 2255":                 {change(timeAt+5, 0xff, 0x1f), ratelimit.Peeked, true},
		"a time after 2255":              {change(timeAt+6, 0x20), ratelimit.Peeked, false},
		"a bucket in 2255":               {change(bucketAt, 0x33, 0xa6, 0xf2, 0x08, 0, 0), ratelimit.Peeked, true}, // it begins before 2^53 µs
		"a bucket after 2255":            {change(bucketAt, 0x34, 0xa6, 0xf2, 0x08, 0, 0), ratelimit.Peeked, false},
		"made in 2255":                   {change(timeAt-2, 0xff, 0x1f), ratelimit.Peeked, true},
		"made after 2255":                {change(timeAt-1, 0x20), ratelimit.Peeked, false},
	} {
		if _, d, ok := p.Decision(bytes.Clone(c.account), now, c.outcome); ok != c.ok {
			t.Errorf("%s: %+v, %t", name, d, ok)
		}
	}
}

// A gateway admits its share of what remains in the last account, rounded up.
func TestDecideShareAdmitsAShareOfTheRemaining(t *testing.T) {
	p := ratelimittest.Policy(t, limit("second", 3, time.Second), limit("hour", 100, time.Hour))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var last ratelimit.Account
	for i := range 90 {
		last, _ = alone(p, last, now.Add(time.Duration(i-90)*time.Second))
	}
	for name, c := range map[string]struct {
		last     ratelimit.Account
		gateways int
		want     []int // admitted in each of four seconds
	}{
		"one gateway":              {nil, 1, []int{3, 3, 3, 3}},
		"one of two":               {nil, 2, []int{2, 2, 2, 2}},
		"one of four":              {nil, 4, []int{1, 1, 1, 1}},
		"ten of the hour remain":   {last, 1, []int{3, 3, 3, 1}},
		"five per gateway remain":  {last, 2, []int{2, 2, 1, 0}},
		"three per gateway remain": {last, 4, []int{1, 1, 1, 0}},
	} {
		var own ratelimit.Account
		var d ratelimit.Decision
		for i, want := range c.want {
			n := 0
			for range 10 {
				if own, d = p.DecideShare(c.gateways, c.last, own, nil, now.Add(time.Duration(i)*time.Second), false); d.Allowed {
					n++
				}
			}
			if n != want {
				t.Errorf("%s: %d admitted in second %d, not %d", name, n, i, want)
			}
		}
		if d.Allowed || d.RetryAfter <= 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// What all gateways admit by their shares, each at any time, and what the last account counts is
// together at most requests + gateways − 1 in any window. At the reset of a decision more requests
// remain than before, and not earlier. Limits in shadow do not decide.
func TestDecideShareKeepsItsShareAndItsResets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(1_700_000_000_000_000)
		p := rapid.SampledFrom([]*ratelimit.Policy{
			ratelimittest.Policy(t, limit("a", 3, time.Second), limit("b", 70, time.Minute)),
			ratelimittest.Policy(t, limit("a", 10, time.Second), limit("b", 64, 20*time.Second), shadow(limit("c", 2, time.Minute))),
			ratelimittest.Policy(t, limit("a", 500, 10*time.Second)),
		}).Draw(t, "policy")
		step := func() { at = at.Add(time.Duration(rapid.Int64Range(0, 200_000).Draw(t, "step")) * time.Microsecond) }
		var admitted []time.Time
		var last ratelimit.Account
		for range rapid.IntRange(0, 80).Draw(t, "shared") {
			step()
			var d ratelimit.Decision
			if last, _, d = p.ExecuteExchange(last, ratelimit.Exchange{}, at); d.Allowed {
				admitted = append(admitted, at)
			}
		}
		own := make([]ratelimit.Account, rapid.IntRange(1, 5).Draw(t, "gateways"))
		for range rapid.IntRange(1, 150).Draw(t, "requests") {
			step()
			i := rapid.IntRange(0, len(own)-1).Draw(t, "gateway")
			var d ratelimit.Decision
			if own[i], d = p.DecideShare(len(own), last, own[i], nil, at, false); d.Allowed {
				admitted = append(admitted, at)
			}
			checkShare(t, p, len(own), last, own[i], d)
		}
		for _, l := range p.Limits() {
			if !l.Shadow {
				atMost(t, admitted, l.Requests+len(own)-1, l.Per)
			}
		}
	})
}

// checkShare compares what remains just before and at the resets of a decision.
func checkShare(t *rapid.T, p *ratelimit.Policy, gateways int, last, own ratelimit.Account, d ratelimit.Decision) {
	t.Helper()
	peek := func(after time.Duration) ratelimit.Decision {
		_, d := p.DecideShare(gateways, last, slices.Clone(own), nil, d.At.Add(after), true)
		return d
	}
	for i := range p.Limits() {
		b := d.Budgets[i]
		if b.Reset == 0 {
			continue
		}
		before, then := peek(b.Reset-time.Microsecond), peek(b.Reset)
		if before.Budgets[i].Remaining > b.Remaining || then.Budgets[i].Remaining <= b.Remaining {
			t.Fatalf("limit %d: %+v; just before the reset %+v, then %+v", i, b, before.Budgets[i], then.Budgets[i])
		}
	}
	if then := peek(d.RetryAfter); !d.Allowed && !then.Allowed {
		t.Fatalf("denied after retry-after: %+v, then %+v", d, then)
	}
}

func atMost(t *rapid.T, admitted []time.Time, n int, within time.Duration) {
	t.Helper()
	for i := range admitted {
		if i+n < len(admitted) && admitted[i+n].Sub(admitted[i]) < within {
			t.Fatalf("%d admitted within %v", n+1, within)
		}
	}
}
