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

// resolution is the smallest step of a store's clock. The times of a subject's clock are multiples of it.
const resolution = time.Microsecond

// step moves the clock by d, to the next time that the store can tell from others.
func (s Subject) step(d time.Duration) {
	s.Advance((d + resolution - 1).Truncate(resolution))
}

// A Factory makes an empty store.
type Factory func(t rapid.TB) Subject

// Run checks every promise on stores that the factory makes.
func Run(t *testing.T, fresh Factory) {
	t.Run("NoSecondHasMoreThanThree", func(t *testing.T) { noSecondHasMoreThanThree(t, fresh(t)) })
	t.Run("AFlatRateForAnHour", func(t *testing.T) { flatRate(t, fresh(t)) })
	t.Run("NoDenialAfterRetryAfter", func(t *testing.T) { noDenialAfterRetryAfter(t, fresh(t)) })
	t.Run("ADenialRecordsNothing", func(t *testing.T) { denialsRecordNothing(t, fresh(t)) })
	t.Run("LimitsUpAndDown", func(t *testing.T) { upAndDown(t, fresh(t)) })
	t.Run("ARefundRemovesOneAdmission", func(t *testing.T) { refunds(t, fresh(t)) })
	t.Run("ARefundOfOneInstant", func(t *testing.T) { refundsOfOneInstant(t, fresh(t)) })
	t.Run("ARefundAcrossAChange", func(t *testing.T) { refundAcrossAChange(t, fresh(t)) })
	t.Run("ARefundAmongManyAdmissions", func(t *testing.T) { refundAmongManyAdmissions(t, fresh(t)) })
	t.Run("LimitsAcrossTheExactBound", func(t *testing.T) { acrossTheExactBound(t, fresh(t)) })
	t.Run("AClockSetBack", func(t *testing.T) { clockSetBack(t, fresh(t)) })
	t.Run("AClockAtTheEpoch", func(t *testing.T) { clockAtTheEpoch(t, fresh(t)) })
	t.Run("APeekRecordsNothing", func(t *testing.T) { peeks(t, fresh(t)) })
	t.Run("AResetDropsUsage", func(t *testing.T) { resets(t, fresh(t)) })
	t.Run("LimitsInShadowDenyNothing", func(t *testing.T) { limitsInShadow(t, fresh(t)) })
	t.Run("UsageIsKeptIntoAndOutOfShadow", func(t *testing.T) { intoAndOutOfTheShadow(t, fresh(t)) })
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

func (s Subject) peek(t rapid.TB, token string, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	d, err := s.Store.Peek(context.Background(), token, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (s Subject) reset(t rapid.TB, token string) {
	t.Helper()
	if err := s.Store.Reset(context.Background(), token); err != nil {
		t.Fatal(err)
	}
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
		Policy(t, limit("a", 3, time.Second), shadow(limit("b", 10, 7*time.Second)), limit("c", 70, time.Minute), shadow(limit("d", 80, 30*time.Second))),
		Policy(t, limit("a", 10, time.Second), shadow(limit("b", 100, time.Minute))),
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
				s.step(rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, 77 * time.Millisecond}).Draw(t, "gap"))
				request(t)
			}
		},
		"wait": func(t *rapid.T) {
			s.step(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "wait")))
		},
		"wait as told": func(t *rapid.T) {
			id := token.Draw(t, "token")
			d := check(t, s, id, tokens[id], current)
			if d.Allowed {
				granted[id] = append(granted[id], d)
				return
			}
			s.Advance(d.RetryAfter - resolution)
			if early := check(t, s, id, tokens[id], current); early.Allowed || early.RetryAfter != resolution {
				t.Fatalf("a moment before the time told: %+v", early)
			}
			s.Advance(resolution)
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
			tokens[id].refund(d)
		},
		"step back": func(t *rapid.T) {
			step := time.Duration(rapid.Int64Range(1, int64(90*time.Second)).Draw(t, "step"))
			step -= step % resolution
			s.Advance(-step)
			for _, o := range tokens {
				o.rewind(step, s.Now())
			}
			clear(granted) // their times are no longer those that were told
		},
		"reset": func(t *rapid.T) {
			id := token.Draw(t, "token")
			s.reset(t, id)
			tokens[id].reset() // what was granted before is given back to no avail
			s.Advance(time.Second)
		},
		"change policy": func(t *rapid.T) {
			current = rapid.SampledFrom(all).Draw(t, "policy")
		},
	})
}

// check makes a request and holds the decision against the oracle.
func check(t rapid.TB, s Subject, id string, o *oracle, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	now := s.Now()
	o.change(p, now)
	peeked := s.peek(t, id, p)
	d := s.decide(t, id, p)
	if !d.At.Equal(now) {
		t.Fatalf("decided at %v, not %v", d.At, now)
	}
	if peeked.Allowed != d.Allowed || peeked.Denied != d.Denied || peeked.Shadowed != d.Shadowed || peeked.RetryAfter != d.RetryAfter {
		t.Fatalf("peeked %+v, decided %+v", peeked, d)
	}
	checkBudgets(t, s, o, d, peeked)
	switch {
	case d.Allowed:
		if d.Denied != -1 || d.RetryAfter != 0 {
			t.Fatalf("allowed, and yet %+v", d)
		}
		o.enforced.admitted = append(o.enforced.admitted, now)
	case d.RetryAfter <= 0 || d.Denied < 0 || d.Denied >= len(p.Limits()) || p.Limits()[d.Denied].Shadow:
		t.Fatalf("refused without saying why or for how long: %+v", d)
	case !o.full(s, false) && !now.Before(o.settled):
		t.Fatalf("refused although every limit has room: %+v", d)
	}
	switch {
	case d.Shadowed < 0 && d.Allowed:
		o.shadow.admitted = append(o.shadow.admitted, now)
	case d.Shadowed < 0:
	case !d.Allowed || !p.Limits()[d.Shadowed].Shadow:
		t.Fatalf("refused by a limit in shadow, but %+v", d)
	case !o.full(s, true) && !now.Before(o.settled):
		t.Fatalf("refused in shadow although every limit there has room: %+v", d)
	}
	return d
}

// checkBudgets holds what is left of each limit against the oracle, and against what was left the moment before.
func checkBudgets(t rapid.TB, s Subject, o *oracle, d, peeked ratelimit.Decision) {
	t.Helper()
	for i, l := range o.policy.Limits() {
		book, admitted := &o.enforced, d.Allowed
		if l.Shadow {
			book, admitted = &o.shadow, d.Allowed && d.Shadowed < 0
		}
		exactly, spent := book.count(s.Now(), l.Per), 0
		if admitted {
			spent = 1
		}
		if admitted && exactly >= l.Requests {
			t.Fatalf("limit %s: one more than %d within %v", l.Name, l.Requests, l.Per)
		}
		b := d.Budgets[i]
		if most := max(0, l.Requests-exactly-spent); b.Remaining > most {
			t.Fatalf("limit %s: %d remain, at most %d can", l.Name, b.Remaining, most)
		}
		if (b.Remaining == l.Requests) != (b.Reset == 0) || b.Reset < 0 {
			t.Fatalf("limit %s: %d of %d remain, reset in %v", l.Name, b.Remaining, l.Requests, b.Reset)
		}
		if peeked.Budgets[i].Remaining != b.Remaining+spent {
			t.Fatalf("limit %s: %d remained before, and now %d", l.Name, peeked.Budgets[i].Remaining, b.Remaining)
		}
	}
}

// full says whether a limit that is in shadow, or one that is not, may be taken to be full.
func (o *oracle) full(s Subject, shadow bool) bool {
	book := &o.enforced
	if shadow {
		book = &o.shadow
	}
	return slices.ContainsFunc(o.policy.Limits(), func(l ratelimit.Limit) bool {
		return l.Shadow == shadow && book.count(s.Now(), l.Per+caution(l)) >= l.Requests
	})
}

func shadow(l ratelimit.Limit) ratelimit.Limit {
	l.Shadow = true
	return l
}
