package ratelimit_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
)

// A share is never passed: no window has more than the part of the limit that the shared account leaves, rounded up, and as many windows as there are
// gateways no more than the whole limit. What a client is told holds: until the reset nothing more remains, and then more does.
func TestAShareIsKeptAndToldTruthfully(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(1_700_000_000_000_000)
		p := rapid.SampledFrom([]*ratelimit.Policy{
			ratelimittest.Policy(t, ratelimit.Limit{Name: "a", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "b", Requests: 70, Per: time.Minute}),
			ratelimittest.Policy(t, ratelimit.Limit{Name: "a", Requests: 10, Per: time.Second}, ratelimit.Limit{Name: "b", Requests: 64, Per: 20 * time.Second}),
			ratelimittest.Policy(t, ratelimit.Limit{Name: "a", Requests: 500, Per: 10 * time.Second}),
		}).Draw(t, "policy")
		step := func() { at = at.Add(time.Duration(rapid.Int64Range(0, 200_000).Draw(t, "step")) * time.Microsecond) }
		of := ratelimit.Share{Replicas: rapid.IntRange(1, 5).Draw(t, "gateways")}
		for range rapid.IntRange(0, 80).Draw(t, "shared") {
			step()
			of.Shared, _, _ = p.Exchange(of.Shared, ratelimit.Exchange{}, at)
		}
		for range rapid.IntRange(0, 10).Draw(t, "sent") {
			step()
			of.Sent, _ = p.DecideShare(ratelimit.Share{Replicas: of.Replicas, Shared: of.Shared}, of.Sent, at, false)
		}
		var own ratelimit.Account
		var admitted []time.Time
		for range rapid.IntRange(1, 150).Draw(t, "requests") {
			step()
			var d ratelimit.Decision
			own, d = p.DecideShare(of, own, at, false)
			if d.Allowed {
				admitted = append(admitted, at)
			}
			checkShare(t, p, of, own, d)
		}
		for _, l := range p.Limits() {
			part := (l.Requests + of.Replicas - 1) / of.Replicas
			atMost(t, admitted, part, l.Per)
			if l.Requests <= ratelimit.MaxExact {
				atMost(t, admitted, l.Requests, l.Per*time.Duration(of.Replicas))
			}
		}
	})
}

// checkShare holds the resets of a decision against what remains before and at them.
func checkShare(t *rapid.T, p *ratelimit.Policy, of ratelimit.Share, own ratelimit.Account, d ratelimit.Decision) {
	t.Helper()
	for i := range p.Limits() {
		b := d.Budgets[i]
		if b.Reset == 0 {
			continue
		}
		_, before := p.DecideShare(of, slices.Clone(own), d.At.Add(b.Reset-time.Microsecond), true)
		_, then := p.DecideShare(of, slices.Clone(own), d.At.Add(b.Reset), true)
		if before.Budgets[i].Remaining > b.Remaining || then.Budgets[i].Remaining <= b.Remaining {
			t.Fatalf("limit %d: %+v; just before the reset %+v, then %+v", i, b, before.Budgets[i], then.Budgets[i])
		}
	}
	if _, then := p.DecideShare(of, slices.Clone(own), d.At.Add(d.RetryAfter), true); !d.Allowed && !then.Allowed {
		t.Fatalf("denied after waiting as told: %+v, then %+v", d, then)
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
