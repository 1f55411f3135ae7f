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

func mixed(tb rapid.TB) *ratelimit.Policy {
	return ratelimittest.Policy(tb,
		ratelimit.Limit{Name: "second", Requests: 20, Per: time.Second},
		ratelimit.Limit{Name: "minute", Requests: 300, Per: time.Minute},
		ratelimit.Limit{Name: "tried", Requests: 40, Per: 10 * time.Second, Shadow: true})
}

// drawAccount records requests at drawn times in the minute before now.
func drawAccount(t *rapid.T, p *ratelimit.Policy, now time.Time) (a ratelimit.Account, admitted int) {
	at := now.Add(-time.Minute)
	for range rapid.IntRange(0, 60).Draw(t, "requests") {
		at = at.Add(time.Duration(rapid.IntRange(0, 1_900).Draw(t, "gap")) * time.Millisecond)
		if at.After(now) {
			break
		}
		var d ratelimit.Decision
		if a, d = p.DecideShare(ratelimit.ShareInput{Gateways: 1}, a, at, false); d.Allowed {
			admitted++
		}
	}
	return a, admitted
}

// used returns the number of admissions that count in a limit.
func used(p *ratelimit.Policy, a ratelimit.Account, i int, now time.Time) int {
	_, _, d := p.ExecuteExchange(a, ratelimit.Exchange{Op: ratelimit.OpPeek}, now)
	return p.Limits()[i].Requests - d.Budgets[i].Remaining
}

func TestMergeWithUnionCountsOnceAndWithoutTwice(t *testing.T) {
	p, now := mixed(t), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		a, _ := drawAccount(t, p, now)
		b, _ := drawAccount(t, p, now)
		same := ratelimit.Union(a, a, now)
		union, reversed := ratelimit.Union(a, b, now), ratelimit.Union(b, a, now)
		sum := ratelimit.Sum(a, b, ratelimit.OneLength, now)
		again := ratelimit.Union(union, b, now)
		for i := range p.Limits() {
			ofA, ofB := used(p, ratelimit.Union(a, nil, now), i, now), used(p, ratelimit.Union(b, nil, now), i, now)
			if n := used(p, same, i, now); n != ofA {
				t.Fatalf("limit %d: %d used, and %d after a union with itself", i, ofA, n)
			}
			n := used(p, union, i, now)
			if n < max(ofA, ofB) || n > ofA+ofB || used(p, reversed, i, now) != n || used(p, again, i, now) != n {
				t.Fatalf("limit %d: the union of %d and %d is %d, reversed %d, and again %d", i, ofA, ofB, n, used(p, reversed, i, now), used(p, again, i, now))
			}
			if n := used(p, sum, i, now); n != min(ofA+ofB, p.Limits()[i].Requests) {
				t.Fatalf("limit %d: %d and %d add up to %d", i, ofA, ofB, n)
			}
		}
	})
}

// Two gateways with different limits use a store, which may lose the account. After their uploads, a window counts every admission that
// an account with that window had, and every later one, and none more than twice: roundings of two windows may differ.
func TestUploadsOfDifferentWindowsCountEveryAdmission(t *testing.T) {
	limit := func(requests int, per time.Duration) ratelimit.Limit {
		return ratelimit.Limit{Name: per.String(), Requests: requests, Per: per}
	}
	policies := []*ratelimit.Policy{
		ratelimittest.Policy(t, limit(64, time.Minute), limit(5000, time.Hour)),
		ratelimittest.Policy(t, limit(300, time.Minute)),
		ratelimittest.Policy(t, limit(64, time.Minute)),
		ratelimittest.Policy(t, limit(5000, time.Hour)),
		ratelimittest.Policy(t, limit(700, 10*time.Minute), limit(9000, 2*time.Hour)),
	}
	rapid.Check(t, func(t *rapid.T) {
		g := exchanging{now: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
		for i := range g.policies {
			g.policies[i] = rapid.SampledFrom(policies).Draw(t, "policy")
		}
		g.request(t, 1, rapid.IntRange(0, 40).Draw(t, "requests of the second gateway"))
		g.request(t, 0, rapid.IntRange(0, 60).Draw(t, "requests of the first gateway"))
		g.now = g.now.Add(2 * time.Minute) // admissions before and after a loss are in different buckets
		before, known := slices.Clone(g.times), g.seen
		if rapid.Bool().Draw(t, "lost") {
			g.stored = nil
		}
		g.upload[0], g.upload[1] = true, true
		g.request(t, 1, rapid.IntRange(1, 60).Draw(t, "requests of the second gateway"))
		g.request(t, 0, 1)
		for _, p := range g.policies {
			for i, l := range p.Limits() {
				least := within(g.times, g.now, l.Per)
				if !slices.ContainsFunc(known[:], func(a ratelimit.Account) bool { return hasWindow(a, l) }) {
					least -= within(before, g.now, l.Per)
				}
				if n := used(p, g.stored, i, g.now); n < least || n > 2*len(g.times) {
					t.Fatalf("limit %s of %d: %d counted, want %d to %d", l.Name, l.Requests, n, least, 2*len(g.times))
				}
			}
		}
	})
}

// exchanging is two gateways with a shared store.
type exchanging struct {
	policies [2]*ratelimit.Policy
	stored   ratelimit.Account
	seen     [2]ratelimit.Account // last answers
	upload   [2]bool              // before the next request
	now      time.Time
	times    []time.Time
}

// request makes requests of a gateway, two in a second at the fastest, for 30 s at most.
func (g *exchanging) request(t *rapid.T, gateway, requests int) {
	t.Helper()
	for range requests {
		g.now = g.now.Add(time.Duration(rapid.IntRange(1, 500).Draw(t, "gap")) * time.Millisecond)
		x := ratelimit.Exchange{Op: ratelimit.OpDecide}
		if g.upload[gateway] {
			x.LastSeen, g.upload[gateway] = g.seen[gateway], false
		}
		a, _, d := g.policies[gateway].ExecuteExchange(g.stored, x, g.now)
		if d.Allowed {
			g.times = append(g.times, g.now)
		}
		g.stored, g.seen[gateway] = slices.Clone(a), slices.Clone(a)
	}
}

func within(times []time.Time, now time.Time, per time.Duration) (n int) {
	for _, at := range times {
		if at.Add(per).After(now) {
			n++
		}
	}
	return n
}

// hasWindow reports whether an account has the window of a limit: a decision on it adds none.
func hasWindow(a ratelimit.Account, l ratelimit.Limit) bool {
	p, err := ratelimit.NewPolicy([]ratelimit.Limit{l})
	_, _, ok := p.Decision(slices.Clone(a), time.Time{}, ratelimit.Peeked)
	return err == nil && ok
}

func TestDecisionRefusesContradictingAccounts(t *testing.T) {
	p, now := specified(t), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var full ratelimit.Account
	for range 3 {
		full, _ = p.DecideShare(ratelimit.ShareInput{Gateways: 1}, full, now, false)
	}
	one, _ := p.DecideShare(ratelimit.ShareInput{Gateways: 1}, nil, now, false)
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
		"an account of another policy":   {must(mixed(t).DecideShare(ratelimit.ShareInput{Gateways: 1}, nil, now, false)), ratelimit.Admitted, false},
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

func must(a ratelimit.Account, _ ratelimit.Decision) ratelimit.Account { return a }

// A gateway admits its share of what remains in the shared account, and no more than the whole limit in as many windows as gateways.
func TestDecideShareAdmitsAShareOfTheRemaining(t *testing.T) {
	p := ratelimittest.Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 100, Per: time.Hour})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var shared ratelimit.Account
	for i := range 90 {
		shared, _ = p.DecideShare(ratelimit.ShareInput{Gateways: 1}, shared, now.Add(time.Duration(i-90)*time.Second), false)
	}
	for name, c := range map[string]struct {
		shared   ratelimit.Account
		gateways int
		want     []int // admitted in each of four seconds
	}{
		"one gateway":              {nil, 1, []int{3, 3, 3, 3}},
		"one of two":               {nil, 2, []int{2, 1, 2, 1}},
		"one of four":              {nil, 4, []int{1, 1, 1, 0}},
		"ten of the hour remain":   {shared, 1, []int{3, 3, 3, 1}},
		"five per gateway remain":  {shared, 2, []int{2, 1, 2, 0}},
		"three per gateway remain": {shared, 4, []int{1, 1, 1, 0}},
	} {
		var own ratelimit.Account
		var d ratelimit.Decision
		for i, want := range c.want {
			n := 0
			for range 10 {
				if own, d = p.DecideShare(ratelimit.ShareInput{Gateways: c.gateways, Shared: c.shared}, own, now.Add(time.Duration(i)*time.Second), false); d.Allowed {
					n++
				}
			}
			if n != want {
				t.Errorf("%s: %d admitted in second %d, not %d", name, n, i, want)
			}
		}
		if d.Allowed || d.RetryAfter <= 0 {
			t.Errorf("%s: %+v", name, d)
			continue
		}
		at := now.Add(time.Duration(len(c.want)-1)*time.Second + d.RetryAfter)
		if _, early := p.DecideShare(ratelimit.ShareInput{Gateways: c.gateways, Shared: c.shared}, own, at.Add(-time.Microsecond), true); early.Allowed {
			t.Errorf("%s: admitted before retry-after was over", name)
		}
		if _, late := p.DecideShare(ratelimit.ShareInput{Gateways: c.gateways, Shared: c.shared}, own, at, true); !late.Allowed {
			t.Errorf("%s: denied after retry-after: %+v", name, late)
		}
	}
}

// A reload adds a limit. Its window, and those that the account had, count admissions in Own and in Sent for as many windows as gateways.
func TestDecideShareCountsEarlierAdmissionsAfterAReload(t *testing.T) {
	second, now := limit("second", 1, time.Second), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	after := ratelimittest.Policy(t, second, limit("minute", 10, time.Minute))
	for _, before := range []ratelimit.Limit{second, limit("ten", 60, 10*time.Second)} {
		account, _ := ratelimittest.Policy(t, before).DecideShare(ratelimit.ShareInput{Gateways: 3}, nil, now, false)
		for name, in := range map[string]struct{ own, sent ratelimit.Account }{"own": {own: account}, "sent": {sent: account}} {
			share := ratelimit.ShareInput{Gateways: 3, Sent: in.sent}
			early, onTime := now.Add(3*time.Second-time.Microsecond), now.Add(3*time.Second)
			if _, d := after.DecideShare(share, slices.Clone(in.own), early, false); d.Allowed || d.RetryAfter != time.Microsecond {
				t.Errorf("%s, %s: a second request in three seconds of three gateways: %+v", before.Name, name, d)
			}
			if _, d := after.DecideShare(share, slices.Clone(in.own), onTime, false); !d.Allowed {
				t.Errorf("%s, %s: after three seconds: %+v", before.Name, name, d)
			}
		}
	}
}

// No window has more admissions than the share, rounded up, and n windows of n gateways have no more than the whole limit. At the reset of a
// decision more requests remain than before, and not earlier. Limits in shadow do not decide.
func TestDecideShareKeepsItsShareAndItsResets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(1_700_000_000_000_000)
		p := rapid.SampledFrom([]*ratelimit.Policy{
			ratelimittest.Policy(t, ratelimit.Limit{Name: "a", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "b", Requests: 70, Per: time.Minute}),
			ratelimittest.Policy(t, ratelimit.Limit{Name: "a", Requests: 10, Per: time.Second}, ratelimit.Limit{Name: "b", Requests: 64, Per: 20 * time.Second}, shadow(limit("c", 2, time.Minute))),
			ratelimittest.Policy(t, ratelimit.Limit{Name: "a", Requests: 500, Per: 10 * time.Second}),
		}).Draw(t, "policy")
		step := func() { at = at.Add(time.Duration(rapid.Int64Range(0, 200_000).Draw(t, "step")) * time.Microsecond) }
		share := ratelimit.ShareInput{Gateways: rapid.IntRange(1, 5).Draw(t, "gateways")}
		for range rapid.IntRange(0, 80).Draw(t, "shared") {
			step()
			share.Shared, _, _ = p.ExecuteExchange(share.Shared, ratelimit.Exchange{}, at)
		}
		for range rapid.IntRange(0, 10).Draw(t, "sent") {
			step()
			share.Sent, _ = p.DecideShare(ratelimit.ShareInput{Gateways: share.Gateways, Shared: share.Shared}, share.Sent, at, false)
		}
		var own ratelimit.Account
		var admitted []time.Time
		for range rapid.IntRange(1, 150).Draw(t, "requests") {
			step()
			var d ratelimit.Decision
			own, d = p.DecideShare(share, own, at, false)
			if d.Allowed {
				admitted = append(admitted, at)
			}
			checkShare(t, p, share, own, d)
		}
		for _, l := range p.Limits() {
			if l.Shadow {
				continue
			}
			maxAdmitted := (l.Requests + share.Gateways - 1) / share.Gateways
			atMost(t, admitted, maxAdmitted, l.Per)
			if l.Requests <= ratelimit.MaxExact {
				atMost(t, admitted, l.Requests, l.Per*time.Duration(share.Gateways))
			}
		}
	})
}

// checkShare compares what remains just before and at the resets of a decision.
func checkShare(t *rapid.T, p *ratelimit.Policy, share ratelimit.ShareInput, own ratelimit.Account, d ratelimit.Decision) {
	t.Helper()
	for i := range p.Limits() {
		b := d.Budgets[i]
		if b.Reset == 0 {
			continue
		}
		_, before := p.DecideShare(share, slices.Clone(own), d.At.Add(b.Reset-time.Microsecond), true)
		_, then := p.DecideShare(share, slices.Clone(own), d.At.Add(b.Reset), true)
		if before.Budgets[i].Remaining > b.Remaining || then.Budgets[i].Remaining <= b.Remaining {
			t.Fatalf("limit %d: %+v; just before the reset %+v, then %+v", i, b, before.Budgets[i], then.Budgets[i])
		}
	}
	if _, then := p.DecideShare(share, slices.Clone(own), d.At.Add(d.RetryAfter), true); !d.Allowed && !then.Allowed {
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
