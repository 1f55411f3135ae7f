package ratelimit_test

import (
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
)

// Any bytes of a shared store are refused, or give valid counts and waits.
func FuzzAccount(f *testing.F) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	policies := []*ratelimit.Policy{
		specified(f),
		ratelimittest.Policy(f, ratelimit.Limit{Name: "minute", Requests: 70_000, Per: time.Minute}, ratelimit.Limit{Name: "tried", Requests: 64, Per: time.Hour, Shadow: true}),
	}
	for _, p := range policies {
		a, _ := alone(p, nil, now)
		f.Add([]byte(a))
	}
	f.Add([]byte("not an account"))
	afterAll := now.Add(10 * 365 * 24 * time.Hour) // a foreign window is shorter than 2^48 µs
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, p := range policies {
			for _, o := range []ratelimit.Outcome{ratelimit.Denied, ratelimit.Admitted, ratelimit.Peeked} {
				if _, d, ok := p.Decision(append(ratelimit.Account{}, value...), now, o); ok {
					checkDecision(t, p, &d)
				}
			}
			last := ratelimit.Sum(value, nil, now) // nil if the value is not an account
			own, d := p.DecideShare(2, last, append(ratelimit.Account{}, value...), nil, now, false)
			checkDecision(t, p, &d)
			if sum := ratelimit.Sum(value, own, now); !sum.Refund(now).Unused(afterAll) {
				t.Errorf("%x has usage after the longest window", sum)
			}
		}
	})
}

func checkDecision(t *testing.T, p *ratelimit.Policy, d *ratelimit.Decision) {
	t.Helper()
	if d.Allowed != (d.DeniedBy < 0) || d.Allowed != (d.RetryAfter == 0) || d.RetryAfter < 0 {
		t.Fatalf("got %+v", d)
	}
	for i, l := range p.Limits() {
		if b := d.Budgets[i]; b.Remaining < 0 || b.Remaining > l.Requests || b.Reset < 0 {
			t.Fatalf("limit %s: got %+v", l.Name, b)
		}
	}
}
