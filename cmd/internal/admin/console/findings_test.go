package console_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/admin/console"
)

func TestWhatIsWrongIsSaidInWords(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	away := ago(90 * time.Second)
	for _, test := range []struct {
		name  string
		spoil func(*source)
		want  []console.Finding
	}{
		{"nothing", func(*source) {}, []console.Finding{}},
		{"a breaker is open", func(s *source) {
			s.dependencies[0].Breaker = &console.Breaker{
				State: "open", Since: ago(40 * time.Second), ProbesAt: noon.Add(2 * time.Second), Cause: "Unavailable: gone",
			}
		}, []console.Finding{{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open for 40 s, next probe in 2 s", Detail: "Unavailable: gone"}}},
		{"nobody has called since", func(s *source) {
			s.dependencies[0].Breaker = &console.Breaker{State: "open", Since: ago(time.Hour), ProbesAt: ago(time.Minute)}
		}, []console.Finding{{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open for 1 h, the next call is a probe"}}},
		{"a breaker is half-open", func(s *source) {
			s.dependencies[0].Breaker = &console.Breaker{State: "half-open", Since: ago(time.Second)}
		}, []console.Finding{{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker half-open for 1 s, a few calls are let through"}}},
		{"a service is away", func(s *source) {
			s.dependencies[0] = console.Dependency{Name: "fleet", State: "unavailable", Reason: "connection refused", Since: away}
		}, []console.Finding{{Key: "connection:fleet", Verdict: "broken", Text: "fleet: unavailable for 1 min 30 s", Detail: "connection refused"}}},
		{"a service is being connected to", func(s *source) {
			s.dependencies[0] = console.Dependency{Name: "fleet", State: "connecting", Since: ago(4 * time.Second)}
		}, []console.Finding{{Key: "connection:fleet", Verdict: "impaired", Text: "fleet: connecting for 4 s"}}},
		{"a service is being connected to for long", func(s *source) {
			s.dependencies[0] = console.Dependency{Name: "fleet", State: "connecting", Since: ago(5 * time.Second)}
		}, []console.Finding{{Key: "connection:fleet", Verdict: "broken", Text: "fleet: connecting for 5 s"}}},
		{"nobody knows since when", func(s *source) {
			s.dependencies[0] = console.Dependency{Name: "fleet", State: "unavailable"}
		}, []console.Finding{{Key: "connection:fleet", Verdict: "broken", Text: "fleet: unavailable"}}},
		{"a bound is reached", func(s *source) {
			s.dependencies = append(s.dependencies, console.Dependency{Name: "capacity", State: "overloaded", Reason: "more than 8 requests", Since: ago(time.Second)})
		}, []console.Finding{{Key: "connection:capacity", Verdict: "broken", Text: "capacity: overloaded for 1 s", Detail: "more than 8 requests"}}},
		{"revocations are not heard of", func(s *source) {
			s.dependencies[0] = console.Dependency{Name: "revocations", State: "unavailable", Since: ago(12 * time.Second)}
		}, []console.Finding{{
			Key: "connection:revocations", Verdict: "impaired", Text: "Revocations of tokens have not been heard of for 12 s: they are noticed late",
			Detail: "the identity service's stream is away",
		}}},
		{"Redis is away", func(s *source) {
			s.dependencies = append(s.dependencies, console.Dependency{Name: "redis", State: "unavailable, limits are local"})
			s.store = admin.Store{Mode: "local", Since: &away, Breaker: &admin.Breaker{State: "open", Cause: "connection refused"}}
		}, []console.Finding{{
			Key: "limiter:local", Verdict: "impaired", Text: "redis: away; limits are counted by each gateway for itself for 1 min 30 s", Detail: "connection refused",
		}}},
		{"Redis is away, and there are several gateways", func(s *source) {
			s.store = admin.Store{Mode: "local", Since: &away, Replicas: 3}
		}, []console.Finding{{
			Key: "limiter:local", Verdict: "impaired",
			Text: "redis: away; limits are counted by each gateway for itself, a share of 1/3 each for 1 min 30 s",
		}}},
		{"Redis is away, and nobody is admitted", func(s *source) {
			s.store = admin.Store{Mode: "deny", Since: &away}
		}, []console.Finding{{
			Key: "limiter:deny", Verdict: "broken", Text: "redis: away; limits are not counted, every request is refused for 1 min 30 s",
		}}},
		{"a reload was refused", func(s *source) {
			s.config.LastReload = &admin.Reload{At: ago(26 * time.Hour), Outcome: "refused", Problems: []string{"a:1: x", "a:2: y"}}
		}, []console.Finding{{
			Key: "reload", Verdict: "impaired", Text: "The configuration on disk was refused 1 d 2 h ago (2 problems)", Detail: "a:1: x\na:2: y",
		}}},
		{"a reload was good", func(s *source) { s.config.LastReload = &admin.Reload{At: noon, Outcome: "applied"} }, []console.Finding{}},
		{"what fails comes first", func(s *source) {
			s.config.LastReload = &admin.Reload{At: ago(11 * time.Minute), Outcome: "refused", Problems: []string{"x"}}
			s.dependencies[0].Breaker = &console.Breaker{State: "open"}
		}, []console.Finding{
			{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open"},
			{Key: "reload", Verdict: "impaired", Text: "The configuration on disk was refused 11 min ago (1 problem)", Detail: "x"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := well()
			test.spoil(s)
			got, _ := look(t, console.New(console.Options{Metrics: newCounters(), Source: s, Clock: func() time.Time { return noon }}))
			if diff := cmp.Diff(test.want, got.Findings); diff != "" {
				t.Error(diff)
			}
			want := "well"
			if len(test.want) > 0 {
				want = test.want[0].Verdict
			}
			if got.Verdict != want {
				t.Errorf("the verdict is %s", got.Verdict)
			}
		})
	}
}

func TestFailedRequestsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := sampled(t, metrics)
		check := func(verdict string, findings ...console.Finding) {
			t.Helper()
			got, _ := look(t, c)
			if diff := cmp.Diff(findings, got.Findings); got.Verdict != verdict || len(findings)+len(got.Findings) > 0 && diff != "" {
				t.Errorf("%s, %s", got.Verdict, diff)
			}
		}
		metrics.serve("calm", "200", 990, 0)
		metrics.serve("a", "500", 1, 0)
		pass(1)
		check("impaired", console.Finding{
			Key: "failures:impaired", Verdict: "impaired", Text: "1 of 991 requests in the last minute failed (5xx)", Detail: "a: 1",
		})
		for route, n := range map[string]int{"b": 30, "c": 20, "d": 10, "e": 2} {
			metrics.serve(route, "503", n, 0)
		}
		pass(1)
		check("broken", console.Finding{
			Key: "failures:broken", Verdict: "broken", Text: "63 of 1053 requests in the last minute failed (5xx)", Detail: "b: 30, c: 20, d: 10, 2 more routes",
		})
		pass(2)
		check("impaired", console.Finding{
			Key: "failures:impaired", Verdict: "impaired", Text: "63 of 1053 requests in the last minute failed (5xx), none of the last 20 s",
			Detail: "b: 30, c: 20, d: 10, 2 more routes",
		})
		pass(4)
		check("well")
	})
}
