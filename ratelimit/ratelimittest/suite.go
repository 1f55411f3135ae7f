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

// step advances the clock by d, rounded up to the resolution.
func (s Subject) step(d time.Duration) {
	s.Advance((d + resolution - 1).Truncate(resolution))
}

// A Factory returns a subject with an empty store.
type Factory func(t rapid.TB) Subject

// Run runs the suite, with a new subject for each test.
func Run(t *testing.T, newSubject Factory) {
	t.Run("NoWindowHasMoreThanThree", func(t *testing.T) { noSecondHasMoreThanThree(t, newSubject(t)) })
	t.Run("EvenRateUsesTheWholeHourlyLimit", func(t *testing.T) { evenRate(t, newSubject(t)) })
	t.Run("NoDenialAfterRetryAfter", func(t *testing.T) { noDenialAfterRetryAfter(t, newSubject(t)) })
	t.Run("DenialsAreNotRecorded", func(t *testing.T) { denialsRecordNothing(t, newSubject(t)) })
	t.Run("LimitsAreRaisedAndLowered", func(t *testing.T) { raiseAndLowerLimits(t, newSubject(t)) })
	t.Run("RefundRemovesOneAdmission", func(t *testing.T) { refunds(t, newSubject(t)) })
	t.Run("RefundOfSimultaneousAdmissions", func(t *testing.T) { refundsOfOneInstant(t, newSubject(t)) })
	t.Run("RefundAfterAChangeOfPolicy", func(t *testing.T) { refundAcrossAChange(t, newSubject(t)) })
	t.Run("RefundAmongManyAdmissions", func(t *testing.T) { refundAmongManyAdmissions(t, newSubject(t)) })
	t.Run("LimitIsLoweredBelowTheExactBound", func(t *testing.T) { acrossTheExactBound(t, newSubject(t)) })
	t.Run("ClockIsSetBack", func(t *testing.T) { clockSetBack(t, newSubject(t)) })
	t.Run("ClockStartsAtTheEpoch", func(t *testing.T) { clockAtTheEpoch(t, newSubject(t)) })
	t.Run("PeekRecordsNothing", func(t *testing.T) { peeks(t, newSubject(t)) })
	t.Run("ResetDropsUsage", func(t *testing.T) { resets(t, newSubject(t)) })
	t.Run("LimitsInShadowDenyNothing", func(t *testing.T) { limitsInShadow(t, newSubject(t)) })
	t.Run("UsageIsKeptWhenALimitEntersOrLeavesShadow", func(t *testing.T) { enterAndLeaveShadow(t, newSubject(t)) })
	t.Run("TokensAreIndependent", func(t *testing.T) { independentTokens(t, newSubject(t)) })
	t.Run("OracleAgrees", rapid.MakeCheck(func(t *rapid.T) { compareWithOracle(t, newSubject(t)) }))
}

// Policy returns a policy of valid limits.
func Policy(t rapid.TB, limits ...ratelimit.Limit) *ratelimit.Policy {
	t.Helper()
	p, err := ratelimit.NewPolicy(limits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// defaultPolicy returns the default policy; docs/integrate/contract.md, "Rate limits".
func defaultPolicy(t rapid.TB) *ratelimit.Policy {
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

// policies returns the policies of schedules. They differ in requests, lengths, exactness and number of limits.
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

func compareWithOracle(t *rapid.T, s Subject) {
	all := policies(t)
	current := rapid.SampledFrom(all).Draw(t, "policy")
	tokens := map[string]*oracle{"one": {}, "two": {}}
	token := rapid.SampledFrom([]string{"one", "one", "one", "two"})
	admitted := map[string][]ratelimit.Decision{}
	request := func(t *rapid.T) {
		id := token.Draw(t, "token")
		if d := check(t, s, id, tokens[id], current); d.Allowed {
			admitted[id] = append(admitted[id], d)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"request": request,
		"another": request,
		"burst": func(t *rapid.T) {
			for range rapid.IntRange(2, 90).Draw(t, "requests") {
				s.step(rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, 77 * time.Millisecond}).Draw(t, "gap"))
				request(t)
			}
		},
		"wait": func(t *rapid.T) {
			s.step(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "wait")))
		},
		"wait for retry-after": func(t *rapid.T) {
			id := token.Draw(t, "token")
			d := check(t, s, id, tokens[id], current)
			if d.Allowed {
				admitted[id] = append(admitted[id], d)
				return
			}
			s.Advance(d.RetryAfter - resolution)
			if early := check(t, s, id, tokens[id], current); early.Allowed || early.RetryAfter != resolution {
				t.Fatalf("just before retry-after: %+v", early)
			}
			s.Advance(resolution)
			d = check(t, s, id, tokens[id], current)
			if !d.Allowed {
				t.Fatalf("denied after retry-after: %+v", d)
			}
			admitted[id] = append(admitted[id], d)
		},
		"refund": func(t *rapid.T) {
			id := token.Draw(t, "token")
			if len(admitted[id]) == 0 {
				t.Skip("nothing was admitted")
			}
			i := rapid.IntRange(0, len(admitted[id])-1).Draw(t, "decision")
			d := admitted[id][i]
			admitted[id] = slices.Delete(admitted[id], i, i+1)
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
			clear(admitted) // the store has moved their times
		},
		"reset": func(t *rapid.T) {
			id := token.Draw(t, "token")
			s.reset(t, id)
			tokens[id].reset() // later refunds of earlier admissions change nothing
			s.Advance(time.Second)
		},
		"change policy": func(t *rapid.T) {
			current = rapid.SampledFrom(all).Draw(t, "policy")
		},
	})
}

// check makes a request and compares the decision with the oracle.
func check(t rapid.TB, s Subject, id string, o *oracle, p *ratelimit.Policy) ratelimit.Decision {
	t.Helper()
	now := s.Now()
	o.change(p, now)
	peeked := s.peek(t, id, p)
	d := s.decide(t, id, p)
	if !d.At.Equal(now) {
		t.Fatalf("decided at %v, not %v", d.At, now)
	}
	if peeked.Allowed != d.Allowed || peeked.DeniedBy != d.DeniedBy || peeked.ShadowDeniedBy != d.ShadowDeniedBy || peeked.RetryAfter != d.RetryAfter {
		t.Fatalf("peeked %+v, decided %+v", peeked, d)
	}
	checkBudgets(t, s, o, d, peeked)
	switch {
	case d.Allowed:
		if d.DeniedBy != -1 || d.RetryAfter != 0 {
			t.Fatalf("allowed, but %+v", d)
		}
		o.enforced.admitted = append(o.enforced.admitted, now)
	case d.RetryAfter <= 0 || d.DeniedBy < 0 || d.DeniedBy >= len(p.Limits()) || p.Limits()[d.DeniedBy].Shadow:
		t.Fatalf("denied without a limit or retry-after: %+v", d)
	case !o.full(s, false) && !now.Before(o.tolerantUntil):
		t.Fatalf("denied, though no limit is full: %+v", d)
	}
	switch {
	case d.ShadowDeniedBy < 0 && d.Allowed:
		o.shadow.admitted = append(o.shadow.admitted, now)
	case d.ShadowDeniedBy < 0:
	case !d.Allowed || !p.Limits()[d.ShadowDeniedBy].Shadow:
		t.Fatalf("shadowed, but %+v", d)
	case !o.full(s, true) && !now.Before(o.tolerantUntil):
		t.Fatalf("shadowed, though no limit in shadow is full: %+v", d)
	}
	return d
}

// checkBudgets compares what remains of each limit with the oracle and with the peek before the request.
func checkBudgets(t rapid.TB, s Subject, o *oracle, d, peeked ratelimit.Decision) {
	t.Helper()
	for i, l := range o.policy.Limits() {
		admissions, admitted := &o.enforced, d.Allowed
		if l.Shadow {
			admissions, admitted = &o.shadow, d.Allowed && d.ShadowDeniedBy < 0
		}
		used, recorded := admissions.count(s.Now(), l.Per), 0
		if admitted {
			recorded = 1
		}
		if admitted && used >= l.Requests {
			t.Fatalf("limit %s: one more than %d within %v", l.Name, l.Requests, l.Per)
		}
		b := d.Budgets[i]
		if limit := max(0, l.Requests-used-recorded); b.Remaining > limit {
			t.Fatalf("limit %s: %d remain, want at most %d", l.Name, b.Remaining, limit)
		}
		if (b.Remaining == l.Requests) != (b.Reset == 0) || b.Reset < 0 {
			t.Fatalf("limit %s: %d of %d remain, reset in %v", l.Name, b.Remaining, l.Requests, b.Reset)
		}
		if peeked.Budgets[i].Remaining != b.Remaining+recorded {
			t.Fatalf("limit %s: %d remained before, and now %d", l.Name, peeked.Budgets[i].Remaining, b.Remaining)
		}
	}
}

// full reports whether a store may consider a limit of one kind, in shadow or enforced, full.
func (o *oracle) full(s Subject, shadow bool) bool {
	admissions := &o.enforced
	if shadow {
		admissions = &o.shadow
	}
	return slices.ContainsFunc(o.policy.Limits(), func(l ratelimit.Limit) bool {
		return l.Shadow == shadow && admissions.count(s.Now(), l.Per+tolerance(l)) >= l.Requests
	})
}

func shadow(l ratelimit.Limit) ratelimit.Limit {
	l.Shadow = true
	return l
}
