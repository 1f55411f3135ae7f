package ratelimit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
)

func TestASharePassesNoLimitByMuch(t *testing.T) {
	limit := func(name string, requests int, per time.Duration) ratelimit.Limit {
		return ratelimit.Limit{Name: name, Requests: requests, Per: per}
	}
	for name, c := range map[string]struct {
		replicas int
		whole    []ratelimit.Limit
		want     []ratelimit.Limit
	}{
		"one": {1, []ratelimit.Limit{limit("second", 3, time.Second)}, []ratelimit.Limit{limit("second", 3, time.Second)}},
		"even": {2, []ratelimit.Limit{limit("second", 4, time.Second), limit("hour", 5000, time.Hour)},
			[]ratelimit.Limit{limit("second", 2, time.Second), limit("hour", 2500, time.Hour)}},
		"uneven": {2, []ratelimit.Limit{limit("second", 3, time.Second), limit("hour", 4999, time.Hour)},
			[]ratelimit.Limit{limit("second", 2, time.Second), limit("hour", 2500, time.Hour), limit("second of all replicas", 3, 2*time.Second)}},
		"more replicas than requests": {10, []ratelimit.Limit{limit("second", 3, time.Second)},
			[]ratelimit.Limit{limit("second", 1, time.Second), limit("second of all replicas", 3, 10*time.Second)}},
		"an interval that is taken": {60, []ratelimit.Limit{limit("second", 3, time.Second), limit("minute", 60_000, time.Minute)},
			[]ratelimit.Limit{limit("second", 1, time.Second), limit("minute", 1000, time.Minute)}},
		"more nanoseconds than a number holds": {7000, []ratelimit.Limit{limit("month", 3, 2_635_250_000_000_000)},
			[]ratelimit.Limit{limit("month", 1, 2_635_250_000_000_000)}},
	} {
		share := ratelimittest.Policy(t, c.whole...).Share(c.replicas)
		if diff := cmp.Diff(c.want, share.Limits()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		for i := range share.Limits() {
			if of := share.ShareOf(i); i < len(c.whole) && of != i || i >= len(c.whole) && c.whole[of].Name != "second" {
				t.Errorf("%s: limit %d is for %d", name, i, of)
			}
		}
	}
}

func TestEveryPolicyHasShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := make([]ratelimit.Limit, rapid.IntRange(1, ratelimit.MaxLimits).Draw(t, "limits"))
		for i := range limits {
			per := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(31*24*time.Hour)).Draw(t, "per"))
			limits[i] = ratelimit.Limit{Name: string(rune('a' + i)), Requests: rapid.IntRange(1, 5000).Draw(t, "requests"), Per: per, Shadow: i > 0 && rapid.Bool().Draw(t, "shadow")}
		}
		p, err := ratelimit.NewPolicy(limits)
		if err != nil {
			t.Skip(err)
		}
		replicas := rapid.IntRange(1, 10_000).Draw(t, "replicas")
		for i, l := range p.Share(replicas).Limits()[:len(limits)] {
			if l.Requests*replicas < limits[i].Requests || (l.Requests-1)*replicas >= limits[i].Requests {
				t.Fatalf("%d of %d for one of %d", l.Requests, limits[i].Requests, replicas)
			}
		}
	})
}
