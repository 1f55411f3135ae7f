package console_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
)

func breaker(b backendclient.BreakerStatus) admin.Dependency {
	return admin.Dependency{State: "ready", OK: true, Breaker: &b}
}

func TestFindings(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	lost := ago(90 * time.Second)
	for _, test := range []struct {
		name   string
		change func(*fakeSource)
		want   []console.Finding
	}{
		{"nothing", func(*fakeSource) {}, []console.Finding{}},
		{"a breaker is open", func(s *fakeSource) {
			s.dependencies["fleet"] = breaker(backendclient.BreakerStatus{
				State: "open", TrippedAt: ago(40 * time.Second), ProbesAt: noon.Add(2 * time.Second), Cause: "Unavailable: gone",
			})
		}, []console.Finding{{
			Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open for 40s, next probe in 2s", Detail: "Unavailable: gone",
			Runbook: "services.md#a-breaker-is-open",
		}}},
		{"a breaker is open, and its next call is a probe", func(s *fakeSource) {
			s.dependencies["fleet"] = breaker(backendclient.BreakerStatus{State: "open", TrippedAt: ago(time.Hour), ProbesAt: ago(time.Minute)})
		}, []console.Finding{{
			Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open for 1h, the next call is a probe",
			Runbook: "services.md#a-breaker-is-open",
		}}},
		{"a breaker is open for one team", func(s *fakeSource) {
			s.dependencies["fleet"] = breaker(backendclient.BreakerStatus{
				State: "open", TrippedAt: ago(40 * time.Second), ProbesAt: noon.Add(2 * time.Second), Team: "a",
			})
		}, []console.Finding{{
			Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open for 40s, only for team a, next probe in 2s",
			Runbook: "services.md#a-breaker-is-open",
		}}},
		{"a breaker is half-open", func(s *fakeSource) {
			s.dependencies["fleet"] = breaker(backendclient.BreakerStatus{State: "half-open", TrippedAt: ago(time.Second)})
		}, []console.Finding{{
			Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker half-open for 1s, a few calls are allowed",
			Runbook: "services.md#a-breaker-is-open",
		}}},
		{"a service is unavailable", func(s *fakeSource) {
			s.dependencies["fleet"] = admin.Dependency{State: "unavailable", Reason: "connection refused", Since: lost}
		}, []console.Finding{{
			Key: "connection:fleet", Verdict: "broken", Text: "fleet: unavailable for 1m30s", Detail: "connection refused",
			Runbook: "gateways.md#a-gateway-is-degraded",
		}}},
		{"a service is connecting", func(s *fakeSource) {
			s.dependencies["fleet"] = admin.Dependency{State: "connecting", Since: ago(4 * time.Second)}
		}, []console.Finding{{
			Key: "connection:fleet", Verdict: "impaired", Text: "fleet: connecting for 4s", Runbook: "gateways.md#a-gateway-is-degraded",
		}}},
		{"a service is connecting for five seconds", func(s *fakeSource) {
			s.dependencies["fleet"] = admin.Dependency{State: "connecting", Since: ago(5 * time.Second)}
		}, []console.Finding{{
			Key: "connection:fleet", Verdict: "broken", Text: "fleet: connecting for 5s", Runbook: "gateways.md#a-gateway-is-degraded",
		}}},
		{"the start of an outage is unknown", func(s *fakeSource) {
			s.dependencies["fleet"] = admin.Dependency{State: "unavailable"}
		}, []console.Finding{{
			Key: "connection:fleet", Verdict: "broken", Text: "fleet: unavailable", Runbook: "gateways.md#a-gateway-is-degraded",
		}}},
		{"the identity service breaks the contract", func(s *fakeSource) {
			s.dependencies["identity"] = admin.Dependency{State: "invalid answers"}
		}, []console.Finding{{
			Key: "connection:identity", Verdict: "broken", Text: "identity: invalid answers", Runbook: "identity.md#tokens-are-served-stale",
		}}},
		{"too many connections are open", func(s *fakeSource) {
			s.dependencies["connections"] = admin.Dependency{State: "overloaded"}
		}, []console.Finding{{
			Key: "connection:connections", Verdict: "broken", Text: "connections: overloaded",
			Runbook: "gateways.md#a-gateway-has-too-many-connections",
		}}},
		{"the capacity is exceeded", func(s *fakeSource) {
			s.dependencies["capacity"] = admin.Dependency{State: "overloaded", Reason: "more than 8 requests", Since: ago(time.Second)}
		}, []console.Finding{{
			Key: "connection:capacity", Verdict: "broken", Text: "capacity: overloaded for 1s", Detail: "more than 8 requests",
			Runbook: "gateways.md#a-gateway-is-full",
		}}},
		{"endpoints are not ready", func(s *fakeSource) {
			d := breaker(backendclient.BreakerStatus{State: "closed"})
			d.Endpoints = []backendclient.EndpointStatus{
				{Address: "10.0.0.1:9000", State: "ready", Since: ago(time.Hour)},
				{Address: "10.0.0.2:9000", State: "ejected", Since: ago(time.Second), Cause: "Internal: disk full"},
				{Address: "10.0.0.3:9000", State: "unavailable", Since: ago(time.Minute)},
				{Address: "10.0.0.4:9000", State: "unavailable", Since: ago(4 * time.Second)},
			}
			s.dependencies["fleet"] = d
		}, []console.Finding{{
			Key: "endpoints:fleet", Verdict: "impaired", Text: "fleet: of 4 endpoints, 1 unavailable, 1 ejected",
			Detail:  "10.0.0.2:9000 is ejected for 1s: Internal: disk full\n10.0.0.3:9000 is unavailable for 1m",
			Runbook: "services.md#one-endpoint-of-a-service-fails",
		}}},
		{"many endpoints are not ready", func(s *fakeSource) {
			d := breaker(backendclient.BreakerStatus{State: "closed"})
			for i := range 200 {
				d.Endpoints = append(d.Endpoints, backendclient.EndpointStatus{Address: fmt.Sprintf("%03d", i), State: "unhealthy", Since: ago(time.Minute)})
			}
			s.dependencies["fleet"] = d
		}, []console.Finding{{
			Key: "endpoints:fleet", Verdict: "impaired", Text: "fleet: of 200 endpoints, 200 unhealthy",
			Detail: "000 is unhealthy for 1m\n001 is unhealthy for 1m\n002 is unhealthy for 1m\n003 is unhealthy for 1m\n004 is unhealthy for 1m\n" +
				"and 195 more",
			Runbook: "services.md#one-endpoint-of-a-service-fails",
		}}},
		{"an endpoint of an unavailable service", func(s *fakeSource) {
			s.dependencies["fleet"] = admin.Dependency{
				State: "unavailable", Endpoints: []backendclient.EndpointStatus{{Address: "10.0.0.1:9000", State: "unavailable"}},
			}
		}, []console.Finding{{
			Key: "connection:fleet", Verdict: "broken", Text: "fleet: unavailable", Runbook: "gateways.md#a-gateway-is-degraded",
		}}},
		{"the revocation stream is down", func(s *fakeSource) {
			s.dependencies["revocations"] = admin.Dependency{State: "unavailable", Since: ago(12 * time.Second)}
		}, []console.Finding{{
			Key: "connection:revocations", Verdict: "impaired", Text: "revocations: unavailable for 12s; revoked tokens are detected late",
			Detail: "the revocation stream of the identity service is down", Runbook: "identity.md#revocations-are-not-received",
		}}},
		{"Redis is unavailable", func(s *fakeSource) {
			s.dependencies["redis"] = admin.Dependency{State: "unavailable, limits are local"}
			s.store = admin.Store{Mode: "local", Since: &lost, Breaker: &admin.Breaker{State: "open", Cause: "connection refused"}}
		}, []console.Finding{{
			Key: "limiter:local", Verdict: "impaired", Text: "redis: unavailable for 1m30s; limits are counted by each gateway separately", Detail: "connection refused",
			Runbook: "limits.md#redis-is-unavailable",
		}}},
		{"Redis is unavailable, and there are several gateways", func(s *fakeSource) {
			s.store = admin.Store{Mode: "local", Since: &lost, Replicas: 3}
		}, []console.Finding{{
			Key: "limiter:local", Verdict: "impaired",
			Text:    "redis: unavailable for 1m30s; limits are counted by each gateway separately, with a share of 1/3 each",
			Runbook: "limits.md#redis-is-unavailable",
		}}},
		{"Redis is unavailable, and all requests are denied", func(s *fakeSource) {
			s.store = admin.Store{Mode: "deny", Since: &lost}
		}, []console.Finding{{
			Key: "limiter:deny", Verdict: "broken", Text: "redis: unavailable for 1m30s; limits are not counted, every request is refused",
			Runbook: "limits.md#redis-is-unavailable",
		}}},
		{"a reload was refused", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(26 * time.Hour), Outcome: "refused", Problems: []string{"a:1: x", "a:2: y"}}
		}, []console.Finding{{
			Key: "reload", Verdict: "impaired", Text: "The configuration on disk was refused 1d2h ago (2 problems)", Detail: "a:1: x\na:2: y",
			Runbook: "configuration.md#a-reload-failed",
		}}},
		{"a reload was refused for keys", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(time.Hour), Outcome: "refused", Keys: []string{"a", "b"}, Problems: []string{"a: x", "a: y", "b: x"}}
		}, []console.Finding{{
			Key: "reload", Verdict: "impaired", Text: "The configuration on disk was refused 1h ago (3 problems: a, b)", Detail: "a: x\na: y\nb: x",
			Runbook: "configuration.md#a-reload-failed",
		}}},
		{"a reload was refused for many keys", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(time.Hour), Outcome: "refused", Keys: []string{"a", "b", "c", "d", "e"}, Problems: []string{"x"}}
		}, []console.Finding{{
			Key: "reload", Verdict: "impaired", Text: "The configuration on disk was refused 1h ago (1 problem: a, b, c and 2 more)", Detail: "x",
			Runbook: "configuration.md#a-reload-failed",
		}}},
		{"a reload was applied", func(s *fakeSource) { s.config.LastReload = &admin.Reload{At: noon, Outcome: "applied"} }, []console.Finding{}},
		{"the most severe finding is first", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(11 * time.Minute), Outcome: "refused", Problems: []string{"x"}}
			s.dependencies["fleet"] = breaker(backendclient.BreakerStatus{State: "open"})
		}, []console.Finding{
			{Key: "breaker:fleet", Verdict: "broken", Text: "fleet: breaker open", Runbook: "services.md#a-breaker-is-open"},
			{
				Key: "reload", Verdict: "impaired", Text: "The configuration on disk was refused 11m ago (1 problem)", Detail: "x",
				Runbook: "configuration.md#a-reload-failed",
			},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := healthy()
			test.change(s)
			got, _ := firstEvents(t, newAtNoon(newCounters(), s))
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

func TestFindingsOfFailedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := startSampling(t, metrics)
		check := func(verdict string, findings ...console.Finding) {
			t.Helper()
			got, _ := firstEvents(t, c)
			if diff := cmp.Diff(findings, got.Findings); got.Verdict != verdict || len(findings)+len(got.Findings) > 0 && diff != "" {
				t.Errorf("%s, %s", got.Verdict, diff)
			}
		}
		metrics.count("calm", "200", 990, 0)
		metrics.count("a", "500", 1, 0)
		waitSamples(1)
		check("impaired", console.Finding{
			Key: "failures:impaired", Verdict: "impaired", Text: "1 of 991 requests in the last minute failed (5xx)", Detail: "a: 1",
			Runbook: "promises.md#clients-read-5xx",
		})
		for route, n := range map[string]int{"b": 30, "c": 20, "d": 10, "e": 2} {
			metrics.count(route, "503", n, 0)
		}
		waitSamples(1)
		check("broken", console.Finding{
			Key: "failures:broken", Verdict: "broken", Text: "63 of 1053 requests in the last minute failed (5xx)", Detail: "b: 30, c: 20, d: 10, 2 more routes",
			Runbook: "promises.md#clients-read-5xx",
		})
		waitSamples(2)
		check("impaired", console.Finding{
			Key: "failures:impaired", Verdict: "impaired", Text: "63 of 1053 requests in the last minute failed (5xx), none in the last 20s",
			Detail: "b: 30, c: 20, d: 10, 2 more routes", Runbook: "promises.md#clients-read-5xx",
		})
		waitSamples(4)
		check("well")
	})
}
