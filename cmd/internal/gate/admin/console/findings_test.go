package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
	"opsgate/cmd/internal/gate/config"
)

// diffFindings compares findings without their advice, which each must have.
func diffFindings(t *testing.T, want, got []console.Finding) string {
	t.Helper()
	if got == nil {
		t.Error("the list of findings is null: the page expects one")
	}
	for _, f := range got {
		if slices.Contains([]string{f.Impact, f.Deadline, f.Action, f.Runbook}, "") {
			t.Errorf("%s lacks a line: %+v", f.Key, f)
		}
		if text := f.Impact + f.Deadline + f.Action; strings.ContainsAny(text, "\n%") || strings.Contains(text, "NAME") {
			t.Errorf("%s advises %q", f.Key, text)
		}
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(console.Finding{}, "Impact", "Deadline", "Action"))
}

func impaired(key, text, detail, runbook string) []console.Finding {
	return []console.Finding{{Key: key, Verdict: "impaired", Text: text, Detail: detail, Runbook: runbook}}
}

func broken(key, text, detail, runbook string) []console.Finding {
	return []console.Finding{{Key: key, Verdict: "broken", Text: text, Detail: detail, Runbook: runbook}}
}

// Known tokens end at the same time whatever the problem of identity is.
func TestFindingOfIdentitySaysWhenKnownTokensEnd(t *testing.T) {
	wrong := &backendclient.WrongEndpoints{Addresses: []string{"10.0.0.1:9000"}}
	for _, test := range []struct {
		d                admin.Dependency
		impact, deadline string
	}{
		{admin.Dependency{State: "lookups fail", TokensUntil: noon.Add(10 * time.Minute)},
			"requests with a token that is not cached get 503; cached tokens work",
			"known tokens work until 12:10:00 UTC at most; then all requests get 503"},
		{admin.Dependency{WrongEndpoints: wrong, TokensUntil: noon.Add(time.Second)},
			"requests with a token that is not cached get 503; cached tokens work",
			"known tokens work until 12:00:01 UTC at most; then all requests get 503"},
		{admin.Dependency{Breaker: &backendclient.BreakerStatus{State: "open"}, TokensUntil: noon},
			"all requests get 503: no token is cached any more", "it stays so until lookups succeed"},
		{admin.Dependency{WrongEndpoints: wrong, NotReady: true},
			"this gateway is not ready, and balancers send it no requests",
			"cached tokens end authn.stale_for after their last lookup; then all requests get 503"},
	} {
		s := healthy()
		s.dependencies["identity"] = test.d
		got := stateOf(t, newAtNoon(newCounters(), s))
		if f := got.Findings[0]; f.Impact != test.impact || f.Deadline != test.deadline {
			t.Errorf("%+v: impact %q, deadline %q", test.d, f.Impact, f.Deadline)
		}
	}
}

func TestRowsHaveTheVerdictOfTheirFindings(t *testing.T) {
	s := healthy()
	s.dependencies["revocations"] = admin.Dependency{State: "unavailable"}
	s.dependencies["identity"] = admin.Dependency{State: "unavailable"}
	s.dependencies["redis"] = admin.Dependency{State: "ready", OK: true}
	s.store.EvictingServers = 1
	got := stateOf(t, newAtNoon(newCounters(), s))
	verdicts := make(map[string]string)
	for _, d := range got.Dependencies {
		verdicts[d.Name] = d.Verdict
	}
	want := map[string]string{"fleet": "well", "identity": "broken", "redis": "impaired", "revocations": "impaired"}
	if diff := cmp.Diff(want, verdicts); diff != "" || got.Verdict != "broken" || !got.Quiet {
		t.Errorf("%s: %+v", diff, got)
	}
}

func TestFindingsSayImpactDeadlineAndAction(t *testing.T) {
	s := healthy()
	s.dependencies["identity"] = admin.Dependency{State: "unavailable"}
	s.dependencies["fleet"] = breaker(backendclient.BreakerStatus{State: "open", Team: "a"})
	s.dependencies["incident"] = breaker(backendclient.BreakerStatus{State: "open"})
	s.dependencies["revocations"] = admin.Dependency{State: "unavailable"}
	s.config.Values = []config.Value{{Key: "authn.stale_for", Value: "20m"}, {Key: "authn.fresh_for", Value: "1m"}}
	s.config.Certificates = []config.Certificate{{Key: "upstreams.fleet.tls.cert_file", Ends: noon.Add(5 * 24 * time.Hour)}}
	got := stateOf(t, newAtNoon(newCounters(), s))
	var advice [][4]string
	for _, f := range got.Findings {
		advice = append(advice, [4]string{f.Key, f.Impact, f.Deadline, f.Action})
	}
	want := [][4]string{
		{"breaker:fleet", "requests of team a that need fleet get 503 at once; other teams are served",
			"when the breakers of more methods open; it ends when the probes of fleet succeed",
			"read the log of fleet, and see what was deployed last"},
		{"connection:identity", "requests with a token that is not cached get 503; cached tokens work",
			"cached tokens end authn.stale_for (20m) after their last lookup; then all requests get 503",
			"see whether identity runs and answers at upstreams.identity.address"},
		{"breaker:incident", "requests that need incident (/v1/incidents, /v1/status-pages) get 503 at once if the last call of their team failed; the rest of the API works",
			"when the breakers of more methods open; it ends when the probes of incident succeed",
			"read the log of incident, and see what was deployed last"},
		{"connection:revocations", "requests are served; a revoked token works for up to authn.fresh_for (1m) longer",
			"if lookups fail too, revoked tokens work for up to authn.stale_for (20m)", "see in the log of identity why it ends the stream"},
		{"certificate:upstreams.fleet.tls.cert_file", "none until it expires",
			"2026-03-09 12:00:00 UTC: then new connections to fleet fail, and requests that need it get 503",
			"renew it and replace its file; a restart is not needed"},
	}
	if diff := cmp.Diff(want, advice); diff != "" {
		t.Error(diff)
	}
}

func breaker(b backendclient.BreakerStatus) admin.Dependency {
	return admin.Dependency{State: "ready", OK: true, Breaker: &b}
}

func TestFindings(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	set := func(name string, d admin.Dependency) func(*fakeSource) {
		return func(s *fakeSource) { s.dependencies[name] = d }
	}
	lost := ago(90 * time.Second)
	for _, test := range []struct {
		name   string
		change func(*fakeSource)
		want   []console.Finding
	}{
		{"nothing", func(*fakeSource) {}, nil},
		{"a breaker is open", set("fleet", breaker(backendclient.BreakerStatus{State: "open", TrippedAt: ago(40 * time.Second), HalfOpenAt: noon.Add(2 * time.Second), Cause: "Unavailable: gone"})),
			broken("breaker:fleet", "fleet: breaker open for 40s, next probe in 2s", "Unavailable: gone", "services.md#a-breaker-is-open")},
		{"a breaker is open, and its next call is a probe", set("fleet", breaker(backendclient.BreakerStatus{State: "open", TrippedAt: ago(time.Hour), HalfOpenAt: ago(time.Minute)})),
			broken("breaker:fleet", "fleet: breaker open for 1h, the next call is a probe", "", "services.md#a-breaker-is-open")},
		{"a breaker is open for one method", set("incident", breaker(backendclient.BreakerStatus{State: "open", TrippedAt: ago(40 * time.Second), HalfOpenAt: noon.Add(2 * time.Second), Methods: []string{"CreateIncident"}})),
			broken("breaker:incident", "incident: breaker open for 40s, for CreateIncident, next probe in 2s", "", "services.md#a-breaker-is-open")},
		{"a breaker is open for one team", func(s *fakeSource) {
			s.dependencies["fleet"] = breaker(backendclient.BreakerStatus{
				State: "open", TrippedAt: ago(40 * time.Second), HalfOpenAt: noon.Add(2 * time.Second), Team: "a",
			})
			s.teams = map[string]string{"a": "harbour"}
		}, broken("breaker:fleet", "fleet: breaker open for 40s, only for team harbour a, next probe in 2s", "", "services.md#a-breaker-is-open")},
		{"a breaker is half-open", set("fleet", breaker(backendclient.BreakerStatus{State: "half-open", TrippedAt: ago(time.Second)})),
			broken("breaker:fleet", "fleet: breaker half-open for 1s, a few calls are allowed", "", "services.md#a-breaker-is-open")},
		{"a service is unavailable", set("fleet", admin.Dependency{State: "unavailable", Reason: "connection refused", Since: lost}),
			broken("connection:fleet", "fleet: unavailable for 1m30s", "connection refused", "gateways.md#a-gateway-is-degraded")},
		{"a service is connecting", set("fleet", admin.Dependency{State: "connecting", Since: ago(4 * time.Second)}),
			impaired("connection:fleet", "fleet: connecting for 4s", "", "gateways.md#a-gateway-is-degraded")},
		{"a service is connecting for five seconds", set("fleet", admin.Dependency{State: "connecting", Since: ago(5 * time.Second)}),
			broken("connection:fleet", "fleet: connecting for 5s", "", "gateways.md#a-gateway-is-degraded")},
		{"the start of an outage is unknown", set("fleet", admin.Dependency{State: "unavailable"}),
			broken("connection:fleet", "fleet: unavailable", "", "gateways.md#a-gateway-is-degraded")},
		{"the identity service breaks the contract", set("identity", admin.Dependency{State: "invalid answers"}),
			broken("connection:identity", "identity: invalid answers", "", "identity.md#tokens-are-served-stale")},
		{"lookups of tokens fail", set("identity", admin.Dependency{State: "lookups fail", Since: ago(time.Minute)}),
			broken("connection:identity", "identity: lookups fail for 1m", "", "identity.md#tokens-are-served-stale")},
		{"too many connections are open", set("connections", admin.Dependency{State: "overloaded"}),
			broken("connection:connections", "connections: overloaded", "", "gateways.md#a-gateway-has-too-many-connections")},
		{"another service is at an address", func(s *fakeSource) {
			d := breaker(backendclient.BreakerStatus{State: "open"})
			d.Since, d.NotReady, d.WrongEndpoints = ago(time.Minute), true, &backendclient.WrongEndpoints{Addresses: []string{"10.0.0.1:9000", "10.0.0.2:9000"}}
			s.dependencies["fleet"] = d
		}, broken("wrong:fleet", "fleet: wrong service at its address for 1m", "10.0.0.1:9000, 10.0.0.2:9000: answers as another service", "services.md#wrong-service-at-an-address")},
		{"the capacity is exceeded", set("capacity", admin.Dependency{State: "overloaded", Reason: "more than 8 requests", Since: ago(time.Second)}),
			broken("connection:capacity", "capacity: overloaded for 1s", "more than 8 requests", "gateways.md#a-gateway-is-full")},
		{"the name of a service does not resolve", func(s *fakeSource) {
			d := s.dependencies["fleet"]
			d.FailedLookup = &backendclient.FailedLookup{Since: lost, Cause: "lookup fleet.example: no such host"}
			d.Endpoints = []backendclient.EndpointStatus{{Address: "10.0.0.1:9000", State: "ready"}}
			s.dependencies["fleet"] = d
		}, impaired("dns:fleet", "fleet: its name does not resolve for 1m30s", "lookup fleet.example: no such host", "services.md#the-name-of-a-service-does-not-resolve")},
		{"the name of a service does not resolve, and no address is known", set("fleet", admin.Dependency{OK: true, FailedLookup: &backendclient.FailedLookup{Since: lost}}),
			broken("dns:fleet", "fleet: its name does not resolve for 1m30s", "", "services.md#the-name-of-a-service-does-not-resolve")},
		{"endpoints are not ready", func(s *fakeSource) {
			d := breaker(backendclient.BreakerStatus{State: "closed"})
			d.Endpoints = []backendclient.EndpointStatus{
				{Address: "10.0.0.1:9000", State: "ready", Since: ago(time.Hour)},
				{Address: "10.0.0.2:9000", State: "ejected", Since: ago(time.Second), Cause: "Internal: disk full"},
				{Address: "10.0.0.3:9000", State: "unavailable", Since: ago(time.Minute)},
				{Address: "10.0.0.4:9000", State: "unavailable", Since: ago(4 * time.Second)},
			}
			s.dependencies["fleet"] = d
		}, impaired("endpoints:fleet", "fleet: of 4 endpoints, 1 unavailable, 1 ejected", "10.0.0.2:9000 is ejected for 1s: Internal: disk full\n10.0.0.3:9000 is unavailable for 1m", "services.md#one-endpoint-of-a-service-fails")},
		{"many endpoints are not ready", func(s *fakeSource) {
			d := breaker(backendclient.BreakerStatus{State: "closed"})
			for i := range 200 {
				d.Endpoints = append(d.Endpoints, backendclient.EndpointStatus{Address: fmt.Sprintf("%03d", i), State: "unhealthy", Since: ago(time.Minute)})
			}
			s.dependencies["fleet"] = d
		}, impaired("endpoints:fleet", "fleet: of 200 endpoints, 200 unhealthy", "000 is unhealthy for 1m\n001 is unhealthy for 1m\n002 is unhealthy for 1m\n003 is unhealthy for 1m\n004 is unhealthy for 1m\n"+"and 195 more", "services.md#one-endpoint-of-a-service-fails")},
		{"an endpoint of an unavailable service", set("fleet", admin.Dependency{State: "unavailable", Endpoints: []backendclient.EndpointStatus{{Address: "10.0.0.1:9000", State: "unavailable"}}}),
			broken("connection:fleet", "fleet: unavailable", "", "gateways.md#a-gateway-is-degraded")},
		{"the revocation stream is down", set("revocations", admin.Dependency{State: "unavailable", Since: ago(12 * time.Second)}),
			impaired("connection:revocations", "revocations: unavailable for 12s; revoked tokens are detected late", "the revocation stream of the identity service is down", "identity.md#revocations-are-not-received")},
		{"Redis is unavailable", func(s *fakeSource) {
			s.dependencies["redis"] = admin.Dependency{State: "unavailable, limits are local"}
			s.store = admin.Store{Mode: "local", Since: &lost, Breaker: &admin.Breaker{State: "open", Cause: "connection refused"}}
		}, impaired("limiter:local", "redis: unavailable for 1m30s; limits are counted by each gateway separately", "connection refused", "limits.md#redis-is-unavailable")},
		{"Redis is unavailable, and there are several gateways", func(s *fakeSource) {
			s.store = admin.Store{Mode: "local", Since: &lost, Replicas: 3}
		}, impaired("limiter:local", "redis: unavailable for 1m30s; limits are counted by each gateway separately, with a share of 1/3 each", "", "limits.md#redis-is-unavailable")},
		{"Redis is unavailable, and all requests are admitted", func(s *fakeSource) {
			s.store = admin.Store{Mode: "allow", Since: &lost}
		}, impaired("limiter:allow", "redis: unavailable for 1m30s; limits are not counted, every request is admitted", "", "limits.md#redis-is-unavailable")},
		{"Redis is unavailable, and all requests are denied", func(s *fakeSource) {
			s.store = admin.Store{Mode: "deny", Since: &lost}
		}, broken("limiter:deny", "redis: unavailable for 1m30s; limits are not counted, every request is refused", "", "limits.md#redis-is-unavailable")},
		{"Redis may evict keys", func(s *fakeSource) { s.store.EvictingServers = 1 },
			impaired("eviction", "redis: its maxmemory-policy evicts keys, and with them the usage of tokens", "", "limits.md#redis-evicts-keys")},
		{"Redis has evicted keys", func(s *fakeSource) { s.store.EvictingServers, s.store.EvictedKeys = 3, 1234 },
			impaired("eviction", "redis: its maxmemory-policy evicts keys, and with them the usage of tokens", "1234 keys evicted since this gateway started", "limits.md#redis-evicts-keys")},
		{"the policy of a Redis that evicted keys was corrected", func(s *fakeSource) { s.store.EvictedKeys = 1234 }, nil},
		{"a reload was refused", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(26 * time.Hour), Outcome: "refused", Problems: []string{"a:1: x", "a:2: y"}}
		}, impaired("reload", "The configuration on disk was refused 1d2h ago (2 problems)", "a:1: x\na:2: y", "configuration.md#a-reload-failed")},
		{"a reload was refused for keys", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(time.Hour), Outcome: "refused", Keys: []string{"a", "b"}, Problems: []string{"a: x", "a: y", "b: x"}}
		}, impaired("reload", "The configuration on disk was refused 1h ago (3 problems: a, b)", "a: x\na: y\nb: x", "configuration.md#a-reload-failed")},
		{"a reload was refused for many keys", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(time.Hour), Outcome: "refused", Keys: []string{"a", "b", "c", "d", "e"}, Problems: []string{"x"}}
		}, impaired("reload", "The configuration on disk was refused 1h ago (1 problem: a, b, c and 2 more)", "x", "configuration.md#a-reload-failed")},
		{"a certificate was refused", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(time.Hour), Outcome: "refused", Keys: []string{"tls.key_file"}, Problems: []string{"x"}}
		}, impaired("reload", "The certificate on disk was refused 1h ago (1 problem: tls.key_file)", "x", "configuration.md#a-certificate-is-refused")},
		{"certificates expire", func(s *fakeSource) {
			s.config.Certificates = []config.Certificate{
				{Key: "tls.cert_file", Ends: noon.Add(31 * 24 * time.Hour)}, {Key: "upstreams.fleet.tls.ca_file", Ends: noon.Add(5 * 24 * time.Hour)},
				{Key: "admin.tls.cert_file", Ends: ago(time.Hour)},
				{Key: "tls.ca_file", Begins: noon.Add(2 * time.Hour), Ends: noon.Add(99 * 24 * time.Hour)},
			}
		}, slices.Concat(
			broken("certificate:admin.tls.cert_file", "admin.tls.cert_file expired 1h ago", "", "configuration.md#a-certificate-expires"),
			broken("certificate:tls.ca_file", "tls.ca_file is not valid for another 2h", "", "configuration.md#a-certificate-expires"),
			impaired("certificate:upstreams.fleet.tls.ca_file", "upstreams.fleet.tls.ca_file expires in 5d", "", "configuration.md#a-certificate-expires"),
		)},
		{"a reload was applied", func(s *fakeSource) { s.config.LastReload = &admin.Reload{At: noon, Outcome: "applied"} }, nil},
		{"the most severe finding is first", func(s *fakeSource) {
			s.config.LastReload = &admin.Reload{At: ago(11 * time.Minute), Outcome: "refused", Problems: []string{"x"}}
			s.dependencies["fleet"] = breaker(backendclient.BreakerStatus{State: "open"})
		}, slices.Concat(
			broken("breaker:fleet", "fleet: breaker open", "", "services.md#a-breaker-is-open"),
			impaired("reload", "The configuration on disk was refused 11m ago (1 problem)", "x", "configuration.md#a-reload-failed"),
		)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := healthy()
			test.change(s)
			got := stateOf(t, newAtNoon(newCounters(), s))
			if diff := diffFindings(t, test.want, got.Findings); diff != "" {
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
		check := func(verdict string, findings []console.Finding) {
			t.Helper()
			got := stateOf(t, c)
			if diff := diffFindings(t, findings, got.Findings); got.Verdict != verdict || diff != "" {
				t.Errorf("%s, %s", got.Verdict, diff)
			}
		}
		metrics.count("calm", "200", 990, 0)
		metrics.count("a", "500", 1, 0)
		waitSamples(1)
		check("impaired", impaired("failures:impaired", "1 of 991 requests in the last minute failed (5xx), 1 of 991 in the last 10s", "a: 1", "promises.md#clients-read-5xx"))
		for route, n := range map[string]int{"b": 30, "c": 20, "d": 10, "e": 2} {
			metrics.count(route, "503", n, 0)
		}
		waitSamples(1)
		check("broken", broken("failures:broken", "63 of 1053 requests in the last minute failed (5xx), 62 of 62 in the last 10s", "b: 30, c: 20, d: 10, 2 more routes", "promises.md#clients-read-5xx"))
		waitSamples(2)
		check("impaired", impaired("failures:impaired", "63 of 1053 requests in the last minute failed (5xx), none in the last 20s", "b: 30, c: 20, d: 10, 2 more routes", "promises.md#clients-read-5xx"))
		waitSamples(4)
		check("well", nil)
	})
}

func TestFindingsOfSlowServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := startSampling(t, metrics)
		check := func(want []console.Finding) (latencies *console.Latencies) {
			t.Helper()
			got := stateOf(t, c)
			if diff := diffFindings(t, want, got.Findings); diff != "" {
				t.Error(diff)
			}
			return got.Dependencies[0].Latencies
		}
		if l := check(nil); l != nil {
			t.Errorf("got %+v before the first call", l)
		}
		metrics.call("GetServer", "OK", 19, 5*time.Second)
		waitSamples(1)
		check(nil) // too few calls
		metrics.call("GetServer", "OK", 1, 5*time.Second)
		metrics.call("GetServer", "OK", 19, time.Millisecond)
		waitSamples(1)
		check(nil) // one slow call of twenty
		metrics.call("GetServer", "OK", 60, time.Millisecond)
		metrics.call("GetServer", "DeadlineExceeded", 40, 5*time.Second)
		waitSamples(1)
		l := check(impaired("slow:fleet", "fleet: slow, half of its calls take 8ms and one in a hundred 9.775s in the last 10s", "in the last 5m: 8ms and 9.791s", "services.md#a-service-is-slow"))
		if l.Calls != 100 || l.P99.Seconds != 9.775 {
			t.Errorf("got %+v", l)
		}
		metrics.call("GetServer", "OK", 100, time.Millisecond)
		waitSamples(1)
		if l := check(nil); l.P99.Seconds > .01 || l.P99Of5m.Seconds < 9 {
			t.Errorf("got %+v after the slow calls", l)
		}
	})
}

// Calls that are not answered do not count: an open breaker refuses most of those of a method that is always denied.
func TestFindingsOfServicesThatRefuseTheGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := newCounters()
		c := startSampling(t, metrics)
		check := func(want []console.Finding) {
			t.Helper()
			got := stateOf(t, c)
			if diff := diffFindings(t, want, got.Findings); diff != "" {
				t.Error(diff)
			}
		}
		found := func(methods, detail string) []console.Finding {
			return broken("refused:fleet", "fleet: PermissionDenied for most calls of "+methods, detail, "services.md#a-service-refuses-the-gateway")
		}
		metrics.call("GetServer", "NotFound", 10, 0)
		waitSamples(1)
		metrics.call("GetServer", "PermissionDenied", 10, 0)
		metrics.call("ListServers", "PermissionDenied", 4, 0)
		metrics.call("ListServers", "Unavailable", 96, 0)
		waitSamples(1)
		check(nil) // half of the calls; too few calls
		metrics.call("GetServer", "PermissionDenied", 1, 0)
		metrics.call("ListServers", "PermissionDenied", 1, 0)
		waitSamples(1)
		check(found("GetServer, ListServers", "GetServer: 11 of 21 calls in the last 5m\nListServers: 5 of 5 calls in the last 5m"))
		waitSamples(10)
		check(found("GetServer, ListServers", "GetServer: 11 of 21 calls in the last 5m\nListServers: 5 of 5 calls in the last 5m"))
		metrics.call("ListServers", "OK", 1, 0)
		waitSamples(1)
		check(found("GetServer", "GetServer: 11 of 21 calls in the last 5m")) // ListServers is no longer refused
		waitSamples(30)
		check(nil)
	})
}
