package ratelimittest

import (
	"fmt"
	"testing"
	"time"

	"opsgate/ratelimit"
)

// Three requests per second for two hours: 5000 are admitted before the first denial by the hourly
// limit, and no hour has more.
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
	t.Logf("%d admitted before the first denial by the hourly limit, %d in two hours, never more than 5000 in one",
		beforeFirst, len(admitted))
}

func noDenialAfterRetryAfter(t *testing.T, s Subject) {
	p := Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second},
		ratelimit.Limit{Name: "minute", Requests: 100, Per: time.Minute})
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

// A machine without a battery for its clock starts in 1970, when the numbers of buckets are small.
func clockAtTheEpoch(t *testing.T, s Subject) {
	p, fewer := defaultPolicy(t), Policy(t, ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second},
		ratelimit.Limit{Name: "hour", Requests: 100, Per: time.Hour})
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

// alternate makes requests of one token at an even rate to gateways with different limits, turn by
// turn, each compared with the oracle. It returns the number that each gateway admitted.
func alternate(
	t *testing.T, s Subject, o *oracle, total, gap time.Duration, policies ...*ratelimit.Policy,
) (admitted [2]int, requests int) {
	for ; time.Duration(requests)*gap < total; requests++ {
		gateway := requests % len(policies)
		if d := check(t, s, gateway, "t", o, policies[gateway]); d.Allowed {
			admitted[gateway]++
		}
		s.Advance(gap)
	}
	return admitted, requests
}

// While the limits of two gateways differ, each enforces its own over all admissions, and denies no
// client within them.
func differentLimits(t *testing.T, newSubject Factory) {
	limit := func(requests int, per time.Duration) ratelimit.Limit {
		return ratelimit.Limit{Name: fmt.Sprint(requests, " in ", per), Requests: requests, Per: per}
	}
	second, hour := limit(3, time.Second), limit(5000, time.Hour)
	t.Run("OneHasAnHourAsWell", func(t *testing.T) {
		n, _ := alternate(t, newSubject(t), new(oracle), time.Hour, 334*time.Millisecond, Policy(t, second, hour),
			Policy(t, second))
		if n[0] > 2600 || n[0]+n[1] < 7800 {
			t.Errorf("the gateway with 5000 an hour admitted %d, the other one %d", n[0], n[1])
		}
		t.Logf("in an hour, the gateway with 5000 an hour admitted %d, none of them with 5000 in the hour before, and the "+
			"other one %d", n[0], n[1])
	})
	for name, c := range map[string]struct {
		gap  time.Duration
		a, b *ratelimit.Policy
	}{
		"ASecondBesideAMinute": {time.Second / 80, Policy(t, limit(100, time.Second)),
			Policy(t, limit(5000, time.Minute))},
		"ASecondBesideAnHour":     {2500 * time.Millisecond, Policy(t, second), Policy(t, hour)},
		"TimesBesideBuckets":      {time.Second, Policy(t, limit(64, time.Minute)), Policy(t, limit(70, time.Minute))},
		"ShadowBesideEnforcement": {800 * time.Millisecond, Policy(t, second, shadow(hour)), Policy(t, second, hour)},
	} {
		t.Run(name, func(t *testing.T) {
			n, requests := alternate(t, newSubject(t), new(oracle), 2*time.Minute, c.gap, c.a, c.b)
			if n[0]+n[1] != requests {
				t.Errorf("%d of %d requests within the limits of both gateways were denied", requests-n[0]-n[1], requests)
			}
			t.Logf("none of %d requests within the limits of both gateways denied", requests)
		})
		t.Run("Before"+name, func(t *testing.T) { startLater(t, newSubject(t), c.gap, c.a, c.b) })
	}
}

// The gateway with the finer limits starts two minutes later. It denies a client within the limits
// of both for at most its window, whose buckets count a sixtieth longer.
func startLater(t *testing.T, s Subject, gap time.Duration, finer, coarser *ratelimit.Policy) {
	var o oracle
	alternate(t, s, &o, 2*time.Minute, gap, coarser)
	per := finer.Limits()[0].Per * 61 / 60
	n, requests := alternate(t, s, &o, per, gap, finer, coarser)
	t.Logf("%d of %d requests denied in the first %v", requests-n[0]-n[1], requests, per)
	if n, requests := alternate(t, s, &o, 2*time.Minute, gap, finer, coarser); n[0]+n[1] != requests {
		t.Errorf("%d of %d requests within the limits of both gateways were denied later", requests-n[0]-n[1], requests)
	}
}

// 50,000 a day are tried in shadow for five hours and then enforced.
func leaveShadow(t *testing.T, s Subject) {
	day := ratelimit.Limit{Name: "day", Requests: 50_000, Per: 24 * time.Hour}
	limits := defaultPolicy(t).Limits()
	before, after := Policy(t, append(limits[:2:2], shadow(day))...), Policy(t, append(limits[:2:2], day)...)
	admitted := 0
	for range 5 * 3600 * 10 / 7 {
		if s.decide(t, "t", before).Allowed {
			admitted++
		}
		s.Advance(700 * time.Millisecond)
	}
	if d := s.peek(t, "t", after); d.Budgets[2].Remaining != 50_000-admitted {
		t.Fatalf("%d admitted, %d counted when the limit is enforced", admitted, 50_000-d.Budgets[2].Remaining)
	}
	t.Logf("%d admitted before the limit was enforced, and as many counted", admitted)
}

// One gateway has 500 a day. At another one, operators try limits of ten lengths, one after the
// other.
func tryManyLengths(t *testing.T, s Subject) {
	second := ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second}
	limited := Policy(t, second, ratelimit.Limit{Name: "day", Requests: 500, Per: 24 * time.Hour})
	var o oracle
	for i := range 10 {
		tried := Policy(t, second,
			shadow(ratelimit.Limit{Name: "tried", Requests: 1000, Per: time.Duration(i+2) * time.Minute}))
		for range 100 {
			check(t, s, 0, "t", &o, limited)
			check(t, s, 1, "t", &o, tried)
			s.Advance(2 * time.Second)
		}
	}
}

// A refund of an admission that a window lacks, as it was made later, takes no other one out of it.
func refundOfAMissingAdmission(t *testing.T, s Subject) {
	of := func(requests int, per time.Duration) *ratelimit.Policy {
		return Policy(t, ratelimit.Limit{Name: "only", Requests: requests, Per: per})
	}
	second, minute := of(100, time.Second), of(1000, time.Minute)
	var o oracle
	s.Advance(time.Second - s.Now().Sub(s.Now().Truncate(time.Second))) // to the start of a bucket of the minute
	first := check(t, s, 0, "t", &o, second)
	s.Advance(500 * time.Millisecond)
	check(t, s, 0, "t", &o, second)
	s.Advance(700 * time.Millisecond)
	check(t, s, 1, "t", &o, minute)
	s.refund(t, "t", first)
	o.refund(first)
	check(t, s, 1, "t", &o, minute)
}

// A limit of 0 requests denies each request whatever the token's usage, which stays as it was.
func blockAll(t *testing.T, s Subject) {
	second, hour := ratelimit.Limit{Name: "second", Requests: 3, Per: time.Second},
		ratelimit.Limit{Name: "hour", Per: time.Hour}
	before := Policy(t, second, ratelimit.Limit{Name: "hour", Requests: 5000, Per: time.Hour})
	blocking := Policy(t, ratelimit.Limit{Name: "minute", Per: time.Minute}, hour, second)
	s.decide(t, "used", before)
	for _, token := range []string{"used", "new"} {
		for range 3 {
			for _, d := range []ratelimit.Decision{s.decide(t, token, blocking), s.peek(t, token, blocking)} {
				want := ratelimit.Budget{Reset: time.Hour}
				if d.Allowed || d.DeniedBy != 1 || d.ShadowDeniedBy != -1 || d.RetryAfter != time.Hour ||
					d.Budgets != [ratelimit.MaxLimits]ratelimit.Budget{want, want, want} {
					t.Fatalf("token %s: %+v", token, d)
				}
			}
			s.Advance(time.Second)
		}
	}
	if d := s.decide(t, "used", before); !d.Allowed || d.Budgets[1].Remaining != 4998 {
		t.Errorf("after the block: %+v", d)
	}
}
