package ratelimittest

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/ratelimit"
)

// A Subject is a store under test and the clock that it decides by.
type Subject struct {
	Store   ratelimit.Store
	Now     func() time.Time
	Advance func(time.Duration) // may be negative
}

// A Factory makes an empty store.
type Factory func(t rapid.TB) Subject

// Run holds the stores that the factory makes to every promise.
func Run(t *testing.T, fresh Factory) {
	t.Run("ThreeInASecondAreThree", func(t *testing.T) { threeInASecond(t, fresh(t)) })
	t.Run("AFlatRateForAnHour", func(t *testing.T) { flatRate(t, fresh(t)) })
	t.Run("WhoWaitsIsNotRefusedAgain", func(t *testing.T) { whoWaits(t, fresh(t)) })
	t.Run("ARefusalSpendsNothing", func(t *testing.T) { refusalsAreFree(t, fresh(t)) })
	t.Run("LimitsUpAndDown", func(t *testing.T) { upAndDown(t, fresh(t)) })
	t.Run("ARefundIsGivenOnceAndNoMore", func(t *testing.T) { refunds(t, fresh(t)) })
	t.Run("ARefundOfOneInstant", func(t *testing.T) { refundsOfOneInstant(t, fresh(t)) })
	t.Run("ARefundAcrossAChange", func(t *testing.T) { refundAcrossAChange(t, fresh(t)) })
	t.Run("LimitsAcrossTheExactBound", func(t *testing.T) { acrossTheExactBound(t, fresh(t)) })
	t.Run("AClockSetBack", func(t *testing.T) { clockSetBack(t, fresh(t)) })
	t.Run("TokensAreApart", func(t *testing.T) { apart(t, fresh(t)) })
	t.Run("AgainstTheOracle", rapid.MakeCheck(func(t *rapid.T) { againstTheOracle(t, fresh(t)) }))
}

// Policy makes a policy of limits that are known to be good.
func Policy(t rapid.TB, limits ...ratelimit.Limit) *ratelimit.Policy {
	t.Helper()
	p, err := ratelimit.NewPolicy(limits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// specified is the policy of the specification, part 8.
func specified(t rapid.TB) *ratelimit.Policy {
	return Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}, ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour})
}

func (s Subject) decide(t rapid.TB, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.Store.Decide(context.Background(), token, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (s Subject) refund(t rapid.TB, token string, p *ratelimit.Policy, d ratelimit.Decision) {
	t.Helper()
	if err := s.Store.Refund(context.Background(), token, p, d); err != nil {
		t.Fatal(err)
	}
}

// policies are those between which a schedule changes: up, down, another length, across the bound of exact limits, one more,
// one less.
func policies(t rapid.TB) []*ratelimit.Policy {
	limit := func(name string, requests int, per time.Duration) ratelimit.Limit {
		return ratelimit.Limit{Name: name, Requests: requests, Per: per}
	}
	return []*ratelimit.Policy{
		Policy(t, limit("a", 3, time.Second), limit("b", 70, time.Minute)),
		Policy(t, limit("a", 10, time.Second), limit("b", 100, time.Minute)),
		Policy(t, limit("a", 3, 2*time.Second), limit("b", 64, time.Minute)),
		Policy(t, limit("a", 65, time.Second)),
		Policy(t, limit("a", 5, time.Minute)),
		Policy(t, limit("b", 1000, time.Minute)),
		Policy(t, limit("a", 2, 100*time.Millisecond), limit("b", 66, 7*time.Second), limit("c", 200, time.Minute), limit("d", 60, 13*time.Second)),
	}
}

func againstTheOracle(t *rapid.T, s Subject) {
	all := policies(t)
	current := rapid.SampledFrom(all).Draw(t, "policy")
	tokens := map[string]*oracle{"one": {}, "two": {}}
	token := rapid.SampledFrom([]string{"one", "one", "one", "two"})
	granted := map[string][]ratelimit.Decision{}
	request := func(t *rapid.T) {
		id := token.Draw(t, "token")
		if d := check(t, s, id, tokens[id], current); d.Allowed {
			granted[id] = append(granted[id], d)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"request":   request,
		"and again": request,
		"burst": func(t *rapid.T) {
			for range rapid.IntRange(2, 90).Draw(t, "requests") {
				s.Advance(rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, 77 * time.Millisecond}).Draw(t, "gap"))
				request(t)
			}
		},
		"wait": func(t *rapid.T) {
			s.Advance(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "wait")))
		},
		"wait as told": func(t *rapid.T) {
			id := token.Draw(t, "token")
			d := check(t, s, id, tokens[id], current)
			if d.Allowed {
				granted[id] = append(granted[id], d)
				return
			}
			s.Advance(d.RetryAfter - 1)
			if early := check(t, s, id, tokens[id], current); early.Allowed || early.RetryAfter != 1 {
				t.Fatalf("a nanosecond before the time told: %+v", early)
			}
			s.Advance(1)
			d = check(t, s, id, tokens[id], current)
			if !d.Allowed {
				t.Fatalf("refused after waiting as told: %+v", d)
			}
			granted[id] = append(granted[id], d)
		},
		"refund": func(t *rapid.T) {
			id := token.Draw(t, "token")
			if len(granted[id]) == 0 {
				t.Skip("nothing was granted")
			}
			i := rapid.IntRange(0, len(granted[id])-1).Draw(t, "decision")
			d := granted[id][i]
			granted[id] = slices.Delete(granted[id], i, i+1)
			s.refund(t, id, current, d)
			tokens[id].refund(d.At)
		},
		"refund again and again": func(t *rapid.T) {
			id := token.Draw(t, "token")
			if len(granted[id]) == 0 {
				t.Skip("nothing was granted")
			}
			i := rapid.IntRange(max(0, len(granted[id])-100), len(granted[id])-1).Draw(t, "decision")
			d := granted[id][i]
			granted[id] = slices.Delete(granted[id], i, i+1)
			for range 3 {
				s.refund(t, id, current, d)
			}
			tokens[id].refund(d.At) // once
		},
		"step back": func(t *rapid.T) {
			step := time.Duration(rapid.Int64Range(1, int64(90*time.Second)).Draw(t, "step"))
			s.Advance(-step)
			for _, o := range tokens {
				o.rewind(step, s.Now())
			}
			clear(granted) // their times are no longer those that were told
		},
		"change policy": func(t *rapid.T) {
			current = rapid.SampledFrom(all).Draw(t, "policy")
		},
	})
}

// check makes a request and holds the decision against the oracle.
func check(t rapid.TB, s Subject, id string, o *oracle, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	o.change(p, s.Now())
	now := s.Now()
	d := s.decide(t, id, p)
	if !d.At.Equal(now) {
		t.Fatalf("decided at %v, not %v", d.At, now)
	}
	full := false
	for i, l := range p.Limits() {
		exactly, cautiously := o.count(now, l.Per), o.count(now, l.Per+caution(l))
		if d.Allowed && exactly >= l.Requests {
			t.Fatalf("limit %s: one more than %d within %v: now %v, admitted %v, known %v", l.Name, l.Requests, l.Per, now, o.admitted[len(o.admitted)-4:], o.known)
		}
		full = full || cautiously >= l.Requests
		spent := 0
		if d.Allowed {
			spent = 1
		}
		if most := l.Requests - exactly - spent; d.Budgets[i].Remaining > max(0, most) {
			t.Fatalf("limit %s: %d remain, at most %d can", l.Name, d.Budgets[i].Remaining, most)
		}
		if (d.Budgets[i].Remaining == l.Requests) != (d.Budgets[i].Reset == 0) || d.Budgets[i].Reset < 0 {
			t.Fatalf("limit %s: %d of %d remain, reset in %v", l.Name, d.Budgets[i].Remaining, l.Requests, d.Budgets[i].Reset)
		}
	}
	switch {
	case d.Allowed:
		if d.Denied != -1 || d.RetryAfter != 0 {
			t.Fatalf("allowed, and yet %+v", d)
		}
		o.admitted = append(o.admitted, now)
	case d.RetryAfter <= 0 || d.Denied < 0 || d.Denied >= len(p.Limits()):
		t.Fatalf("refused without saying why or for how long: %+v", d)
	case !full && !now.Before(o.settled):
		t.Fatalf("refused although every limit has room: %+v", d)
	}
	return d
}
