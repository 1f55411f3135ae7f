package admin

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/backendclient/endpoints"
	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/internal/testkit"
)

// healthy returns the state of a gateway without problems.
func healthy() *State {
	s := &State{At: noon, store: Store{Mode: "memory"}, staleFor: "authn.stale_for (20m)", freshFor: "authn.fresh_for (1m)"}
	s.routes = []gateway.Route{
		{ID: "v1ListServers", Path: "/v1/servers", Service: "fleet"}, {ID: "v1GetServer", Path: "/v1/servers/:id", Service: "fleet"},
		{ID: "v1ListServerGroups", Path: "/v1/server-groups", Service: "fleet"}, {ID: "v1ListMonitors", Path: "/v1/monitors", Service: "monitoring"},
		{ID: "v1ListIncidents", Path: "/v1/incidents", Service: "incident"}, {ID: "v1ListStatusPages", Path: "/v1/status-pages", Service: "incident"},
	}
	s.set("fleet", Dependency{OK: true, Breaker: &breaker.Status{State: "closed"}})
	return s
}

// set sets the state of a dependency.
func (s *State) set(name string, d Dependency) {
	d.Name = name
	s.Dependencies = slices.DeleteFunc(s.Dependencies, func(d *Dependency) bool { return d.Name == name })
	s.Dependencies = append(s.Dependencies, &d)
}

func in(state, reason string, since time.Time) Dependency {
	return Dependency{Condition: Condition{State: state, Reason: reason}, Since: since}
}

func open(b breaker.Status) Dependency {
	if b.State == "" {
		b.State = "open"
	}
	return Dependency{Breaker: &b, BreakerText: breakerText(b, noon)}
}

// texts returns verdict, text and detail of each finding, a line each, with the lines of a detail
// joined. It checks that each has its advice.
func texts(t *testing.T, s *State) (list []string) {
	t.Helper()
	if s.Findings == nil {
		t.Error("the list of findings is null: the page expects one")
	}
	for _, f := range s.Findings {
		if advice := f.Impact + f.Deadline + f.Action; slices.Contains([]string{f.Impact, f.Deadline, f.Action, f.Runbook}, "") ||
			strings.Contains(advice, "\n") || strings.Contains(advice, "%!") || strings.Contains(advice, "NAME") {
			t.Errorf("the advice of a finding: %+v", f)
		}
		list = append(list, strings.ReplaceAll(strings.TrimSuffix(f.Verdict+" "+f.Text+" – "+f.Detail, " – "), "\n", " / "))
	}
	return list
}

func TestFindings(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	set := func(name string, d Dependency) func(*State) { return func(s *State) { s.set(name, d) } }
	redis := func(store Store) func(*State) {
		lost := ago(90 * time.Second)
		store.Since, store.Breaker = &lost, &breaker.Status{State: "open", Cause: "connection refused"}
		return func(s *State) {
			s.store = store
			s.set("redis", in("unavailable", "", lost))
		}
	}
	evicting := func(servers, keys int64) func(*State) {
		return func(s *State) { s.store.EvictingServers, s.store.EvictedKeys = servers, keys }
	}
	reload := func(outcome string, after time.Duration, keys, problems []string) func(*State) {
		return func(s *State) {
			s.Config.LastReload = &Reload{At: ago(after), Outcome: outcome, Keys: keys, Problems: problems}
		}
	}
	withEndpoints := func(ok bool, list ...endpoints.Status) Dependency {
		return Dependency{OK: ok, Endpoints: list}
	}
	many := make([]endpoints.Status, 200)
	for i := range many {
		many[i] = endpoints.Status{Address: fmt.Sprintf("%03d", i), State: "unhealthy", Since: ago(time.Minute)}
	}
	nameLost := func(state endpoints.State) Dependency {
		d := withEndpoints(true, endpoints.Status{Address: "10.0.0.1:9000", State: state, Since: noon})
		d.lookup = &endpoints.FailedLookup{Since: ago(90 * time.Second), Cause: "lookup fleet.example: no such host"}
		return d
	}
	wrong := open(breaker.Status{})
	wrong.Since, wrong.wrong = ago(time.Minute), &backendclient.WrongEndpoints{Addresses: []string{"10.0.0.1:9000", "10.0.0.2:9000"}}
	opened := breaker.Status{TrippedAt: ago(40 * time.Second), HalfOpenAt: noon.Add(2 * time.Second), Cause: "Unavailable: gone"}
	ofMethod, ofTeam := opened, opened
	ofMethod.Methods, ofTeam.Team = []string{"CreateIncident"}, "a"
	for _, test := range []struct {
		change func(*State)
		want   []string
	}{
		{func(*State) {}, nil},
		{func(s *State) { s.Draining = true }, []string{"impaired This gateway is draining: it will stop, and load balancers send it no more requests"}},
		{set("fleet", open(opened)), []string{"broken fleet: breaker open for 40s, next probe in 2s – Unavailable: gone"}},
		{set("fleet", open(breaker.Status{TrippedAt: ago(time.Hour), HalfOpenAt: ago(time.Minute)})),
			[]string{"broken fleet: breaker open for 1h, the next call is a probe"}},
		{set("incident", open(ofMethod)), []string{"broken incident: breaker open for 40s, for CreateIncident, next probe in 2s – Unavailable: gone"}},
		{set("fleet", open(ofTeam)), []string{"broken fleet: breaker open for 40s, for one team, next probe in 2s – Unavailable: gone"}},
		{set("fleet", open(breaker.Status{State: "half-open", TrippedAt: ago(time.Second)})),
			[]string{"broken fleet: breaker half-open for 1s, a few calls are allowed"}},
		{set("fleet", in("unavailable", "no connection", ago(90*time.Second))), []string{"broken fleet: unavailable for 1m30s – no connection"}},
		{set("fleet", in("connecting", "", ago(4*time.Second))), []string{"impaired fleet: connecting for 4s"}},
		{set("fleet", in("connecting", "", ago(5*time.Second))), []string{"broken fleet: connecting for 5s"}},
		{set("fleet", in("unavailable", "", time.Time{})), []string{"broken fleet: unavailable"}},
		{set("identity", in("lookups fail", "", ago(time.Minute))), []string{"broken identity: lookups fail for 1m"}},
		{set("connections", in("overloaded", "", ago(time.Second))), []string{"broken connections: overloaded for 1s"}},
		{set("capacity", in("overloaded", "more than 8 requests", ago(time.Second))), []string{"broken capacity: overloaded for 1s – more than 8 requests"}},
		{set("revocations", in("unavailable", "", ago(12*time.Second))),
			[]string{"impaired revocations: unavailable for 12s; revoked tokens are detected late – the revocation stream of the identity service is down"}},
		{set("fleet", wrong), []string{"broken fleet: wrong service at its address for 1m – 10.0.0.1:9000, 10.0.0.2:9000: answers as another service"}},
		{set("fleet", nameLost("ready")), []string{"impaired fleet: its name does not resolve for 1m30s – lookup fleet.example: no such host"}},
		{set("fleet", nameLost("unavailable")), []string{"broken fleet: its name does not resolve for 1m30s – lookup fleet.example: no such host"}},
		{set("fleet", withEndpoints(true,
			endpoints.Status{Address: "10.0.0.1:9000", State: "ready", Since: ago(time.Hour)},
			endpoints.Status{Address: "10.0.0.2:9000", State: "ejected", Since: ago(time.Second), Cause: "Internal: disk full"},
			endpoints.Status{Address: "10.0.0.3:9000", State: "unavailable", Since: ago(time.Minute)},
			endpoints.Status{Address: "10.0.0.4:9000", State: "unavailable", Since: ago(4 * time.Second)})),
			[]string{"impaired fleet: 2 of 4 endpoints get no calls – 10.0.0.2:9000 is ejected for 1s: Internal: disk full / 10.0.0.3:9000 is unavailable for 1m"}},
		{set("fleet", withEndpoints(true, many...)), []string{"impaired fleet: 200 of 200 endpoints get no calls – 000 is unhealthy for 1m / 001 is unhealthy for 1m" +
			" / 002 is unhealthy for 1m / 003 is unhealthy for 1m / 004 is unhealthy for 1m / and 195 more"}},
		{redis(Store{Mode: "local", Replicas: 1}), []string{"impaired redis: unavailable for 1m30s; limits are counted by each gateway separately – connection refused"}},
		{redis(Store{Mode: "local", Replicas: 3}),
			[]string{"impaired redis: unavailable for 1m30s; limits are counted by each gateway separately, with a share of 1/3 each – connection refused"}},
		{redis(Store{Mode: "allow"}), []string{"impaired redis: unavailable for 1m30s; limits are not counted, every request is admitted – connection refused"}},
		{redis(Store{Mode: "deny"}), []string{"broken redis: unavailable for 1m30s; limits are not counted, every request is refused – connection refused"}},
		{evicting(1, 0), []string{"impaired redis: its maxmemory-policy evicts keys, and with them the usage of tokens"}},
		{evicting(3, 1234), []string{"impaired redis: its maxmemory-policy evicts keys, and with them the usage of tokens – 1234 keys evicted since this gateway started"}},
		{evicting(0, 1234), nil}, // the policy was corrected
		{func(s *State) { s.unknownClasses = []string{"a", "b", "c", "d", "e", "f"} },
			[]string{"impaired identity names classes of limits that the configuration does not have: a, b, c, d, e, and 1 more"}},
		{reload("applied", 0, nil, nil), nil},
		{reload("refused", 26*time.Hour, nil, []string{"a:1: x", "a:2: y"}), []string{"impaired The configuration on disk was refused 1d2h ago (2 problems) – a:1: x / a:2: y"}},
		{reload("refused", time.Hour, []string{"a", "b", "c", "d", "e"}, []string{"x"}),
			[]string{"impaired The configuration on disk was refused 1h ago (1 problem: a, b, c, and 2 more) – x"}},
		{reload("refused", time.Hour, []string{"tls.key_file"}, []string{"x"}), []string{"impaired The certificate on disk was refused 1h ago (1 problem: tls.key_file) – x"}},
		{func(s *State) {
			s.Config.Certificates = []config.Certificate{
				{Key: "tls.cert_file", Ends: noon.Add(31 * 24 * time.Hour)}, {Key: "upstreams.fleet.tls.ca_file", Ends: noon.Add(5 * 24 * time.Hour)},
				{Key: "admin.tls.cert_file", Ends: ago(time.Hour)}, {Key: "tracing.tls.ca_file", Ends: noon.Add(time.Hour)},
				{Key: "tls.ca_file", Begins: noon.Add(2 * time.Hour), Ends: noon.Add(99 * 24 * time.Hour)},
			}
		}, []string{
			"broken admin.tls.cert_file expired 1h ago", "broken tls.ca_file is not valid for another 2h",
			"impaired upstreams.fleet.tls.ca_file expires in 5d", "impaired tracing.tls.ca_file expires in 1h",
		}},
	} {
		s := healthy()
		test.change(s)
		s.diagnose()
		if diff := cmp.Diff(test.want, texts(t, s)); diff != "" {
			t.Error(diff)
		}
		want := "well"
		if len(test.want) > 0 {
			want, _, _ = strings.Cut(test.want[0], " ")
		}
		if s.Verdict != want {
			t.Errorf("%q: the verdict is %s", test.want, s.Verdict)
		}
	}
}

func TestRowsHaveTheVerdictOfTheirFindings(t *testing.T) {
	s := healthy()
	s.set("revocations", in("unavailable", "", noon))
	s.set("identity", in("unavailable", "", noon))
	s.set("redis", Dependency{OK: true})
	s.store.EvictingServers = 1
	s.diagnose()
	verdicts := make(map[string]string)
	for _, d := range s.Dependencies {
		verdicts[d.Name] = d.Verdict
	}
	want := map[string]string{"fleet": "well", "identity": "broken", "redis": "impaired", "revocations": "impaired"}
	if diff := cmp.Diff(want, verdicts); diff != "" || s.Verdict != "broken" {
		t.Errorf("%s: %+v", diff, s)
	}
}

func TestFindingsSayImpactDeadlineAndAction(t *testing.T) {
	at := func(d Dependency, tokensUntil time.Time) Dependency {
		d.tokensUntil = tokensUntil
		return d
	}
	team, wrong := open(breaker.Status{Team: "a"}), open(breaker.Status{})
	team.teamName, wrong.wrong, wrong.notReady = "harbour", new(backendclient.WrongEndpoints), true
	for _, test := range []struct {
		name string
		d    Dependency
		want [3]string
	}{
		{"fleet", team, [3]string{"requests of team harbour a that need fleet get 503 at once; other teams are served",
			"when the breakers of more methods open; it ends when the probes of fleet succeed", "read the log of fleet, and see what was deployed last"}},
		{"incident", open(breaker.Status{}), [3]string{
			"requests that need incident (/v1/incidents, /v1/status-pages) get 503 at once if the last call of their team failed; the rest of the API works",
			"when the breakers of more methods open; it ends when the probes of incident succeed", "read the log of incident, and see what was deployed last"}},
		{"identity", in("unavailable", "", noon), [3]string{uncachedTokens,
			"cached tokens end authn.stale_for (20m) after their last lookup; then all requests get 503",
			"see whether identity runs and answers at upstreams.identity.address"}},
		{"identity", at(in("lookups fail", "", noon), noon.Add(10*time.Minute)), [3]string{uncachedTokens,
			"known tokens work until 12:10:00 UTC at most; then all requests get 503",
			"see whether identity runs and answers at upstreams.identity.address"}},
		{"identity", at(open(breaker.Status{}), noon), [3]string{"all requests get 503: no token is cached any more",
			"it stays so until lookups succeed", "read the log of identity, and see what was deployed last"}},
		{"identity", wrong, [3]string{"this gateway is not ready, and balancers send it no requests",
			"cached tokens end authn.stale_for (20m) after their last lookup; then all requests get 503",
			"set upstreams.identity.address to the address of identity, and reload"}},
		{"revocations", in("unavailable", "", noon), [3]string{"requests are served; a revoked token works for up to authn.fresh_for (1m) longer",
			"if lookups fail too, revoked tokens work for up to authn.stale_for (20m)", "see in the log of identity why it ends the stream"}},
	} {
		s := healthy()
		s.set(test.name, test.d)
		s.diagnose()
		if f := s.Findings[0]; [3]string{f.Impact, f.Deadline, f.Action} != test.want {
			t.Errorf("%s: %q", test.name, [3]string{f.Impact, f.Deadline, f.Action})
		}
	}
}

// The page and /readyz have the action of the cause, and the runbook has all of them.
func TestActionFollowsTheCauseOfRedis(t *testing.T) {
	runbook, err := os.ReadFile("../../../../docs/operate/runbooks/limits.md")
	testkit.Must(t, err)
	for reply, action := range map[string]string{
		"deciding by redis: OOM command not allowed when used memory > 'maxmemory'.": "raise maxmemory to 500 bytes for each token in use; keep noeviction",
		"READONLY You can't write against a read only replica.":                      "set rate_limit.redis.addresses to the master, or use mode: sentinel",
		"WRONGPASS invalid username-password pair or user is disabled.":              "correct rate_limit.redis.username, or the file of its password",
		"asking redis: dial tcp 10.1.2.3:6379: connect: connection refused":          "start Redis, or set rate_limit.redis.addresses to where it listens",
		"asking redis: ERR something new":                                            "run redis-cli ping from this machine; then read the log of Redis",
	} {
		s := healthy()
		s.store = Store{Mode: "local", Since: &noon, Breaker: &breaker.Status{State: "open", Cause: reply}}
		s.diagnose()
		if got := s.Findings[0].Action; got != action {
			t.Errorf("%s: the page says %q", reply, got)
		}
		if body, err := json.Marshal(newRedis(s.store, noon).Condition); err != nil || !strings.Contains(string(body), fmt.Sprintf(`"action":%q`, action)) {
			t.Errorf("%s: the readiness page has %s, %v", reply, body, err)
		}
	}
	for _, row := range redisCauses {
		testkit.Contains(t, string(runbook), "| "+row.reason+" | "+row.action+" |")
	}
}

// A dead process that carries all services is one finding, with the share of requests that fails
// now.
func TestServicesThatFailTogetherAreOneFinding(t *testing.T) {
	dead := func(s *State, name, address string, d Dependency) {
		d.Since = noon.Add(-30 * time.Second)
		d.Endpoints = []endpoints.Status{{Address: address, State: "unavailable", Cause: `connection error: desc = "dial tcp ` + address + `: connect: connection refused"`}}
		s.set(name, d)
	}
	broken := open(breaker.Status{TrippedAt: noon.Add(-30 * time.Second), Cause: "Unavailable: no connection"})
	s := healthy()
	s.failures = failures{lastFailed: 90, lastAll: 100, failed: 90, all: 100, lastByRoute: map[string]uint64{"v1ListServers": 60, "v1ListIncidents": 20, "v1ListMonitors": 10}}
	dead(s, "fleet", "10.0.0.1:9000", broken)
	dead(s, "incident", "10.0.0.1:9000", in("unavailable", "no connection", noon))
	dead(s, "monitoring", "10.0.0.2:9000", in("unavailable", "no connection", noon))
	dead(s, "audit", "10.0.0.3:9000", open(breaker.Status{Team: "a"}))
	s.diagnose()
	want := []string{
		"broken fleet, incident: unavailable for 30s – 10.0.0.1:9000: connection refused",
		"broken monitoring: unavailable for 30s – no connection",
	}
	if diff := cmp.Diff(want, texts(t, s)[:2]); diff != "" {
		t.Error(diff)
	}
	for i, impact := range []string{
		"80 % of all requests fail now: requests that need fleet (/v1/servers, /v1/server-groups), incident (/v1/incidents, /v1/status-pages) get 503",
		"10 % of all requests fail now: requests that need monitoring (/v1/monitors) get 503",
	} {
		if got := s.Findings[i].Impact; got != impact {
			t.Errorf("the impact is %q", got)
		}
	}
	for _, d := range s.Dependencies {
		if d.Verdict != "broken" {
			t.Errorf("%s is %s", d.Name, d.Verdict)
		}
	}

	dead(s, "identity", "10.0.0.1:9000", in("unavailable", "no connection", noon))
	s.diagnose()
	f := s.Findings[0]
	if want := "90 % of all requests fail now: requests that need fleet (/v1/servers, /v1/server-groups), incident (/v1/incidents, /v1/status-pages), identity (tokens that are not cached) get 503"; f.Text != "fleet, incident, identity: unavailable for 30s" || f.Impact != want || f.Detail != "10.0.0.1:9000: connection refused" {
		t.Errorf("got %+v", f)
	}
}

// Each kind has advice that fits into a line, and a section of a runbook.
func TestEachKindHasAdviceAndARunbook(t *testing.T) {
	for name, k := range kinds {
		for _, line := range []string{k.impact, k.deadline, k.action} {
			if line == "" || len(line) > 110 || strings.Contains(line, "\n") {
				t.Errorf("%s: not a line: %q", name, line)
			}
		}
		hasRunbook(t, k.runbook)
	}
	hasRunbook(t, runbookCertificates)
}

func hasRunbook(t *testing.T, name string) {
	t.Helper()
	page, anchor, _ := strings.Cut(name, "#")
	html, err := files.ReadFile("runbooks/" + strings.Replace(page, ".md", ".html", 1))
	if err != nil || anchor == "" || !strings.Contains(string(html), `<h2 id="`+anchor+`">`) {
		t.Errorf("there is no runbook %q: %v", name, err)
	}
}

func TestFindingsOfFailedRequests(t *testing.T) {
	a, metrics := sampled(t)
	check := func(want ...string) {
		t.Helper()
		s := stateOf(a)
		if diff := cmp.Diff(want, texts(t, &s)); diff != "" {
			t.Error(diff)
		}
	}
	metrics.count("calm", "200", 990, 0)
	metrics.count("a", "500", 1, 0)
	a.sample()
	check("impaired 1 of 991 requests in the last minute failed (5xx), 1 of 991 in the last 10s – a: 1")
	for route, n := range map[string]int{"b": 30, "c": 20, "d": 10, "e": 2} {
		metrics.count(route, "503", n, 0)
	}
	a.sample()
	check("broken 63 of 1053 requests in the last minute failed (5xx), 62 of 62 in the last 10s – b: 30, c: 20, d: 10, and 2 more")
	a.sampleTimes(2)
	check("impaired 63 of 1053 requests in the last minute failed (5xx), none in the last 20s – b: 30, c: 20, d: 10, and 2 more")
	a.sampleTimes(4)
	check()
}

// serving returns the finding of a slow service, and of one that refuses the gateway.
func diagnoseService(a *Admin) (slow, refused string) {
	s := State{denials: a.samples.denials()}
	if f := s.diagnoseLatency(&Dependency{Name: "fleet", Latencies: a.samples.latencies("fleet")}); f != nil {
		slow = f.Text + " – " + f.Detail
	}
	if f := s.diagnoseDenials("fleet"); f != nil {
		refused = f.Text + " – " + f.Detail
	}
	return slow, refused
}

func TestFindingsOfSlowServices(t *testing.T) {
	a, metrics := sampled(t)
	if l := a.samples.latencies("fleet"); l != nil {
		t.Errorf("got %+v before the first call", l)
	}
	for _, step := range []struct {
		fast, slow int
		want       string
	}{
		{0, 19, ""}, // too few calls
		{19, 1, ""}, // one slow call of twenty
		{60, 40, "fleet: slow, half of its calls take 8ms and one in a hundred 9.775s in the last 10s – in the last 5m: 8ms and 9.791s"},
		{100, 0, ""},
	} {
		metrics.call("GetServer", "OK", step.fast, time.Millisecond)
		metrics.call("GetServer", "DeadlineExceeded", step.slow, 5*time.Second)
		a.sample()
		if got, _ := diagnoseService(a); got != step.want {
			t.Errorf("%+v: got %q", step, got)
		}
	}
}

// Calls that are not answered do not count: an open breaker refuses most of those of a method that
// is always denied.
func TestFindingsOfServicesThatRefuseTheGateway(t *testing.T) {
	a, metrics := sampled(t)
	const most, get, list = "fleet: PermissionDenied for most calls of ", "GetServer: 11 of 21 calls in the last 5m", "ListServers: 5 of 5 calls in the last 5m"
	for _, step := range []struct {
		calls   map[string]int // by method and code
		samples int
		want    string
	}{
		{map[string]int{"GetServer NotFound": 10}, 1, ""},
		{map[string]int{"GetServer PermissionDenied": 10, "ListServers PermissionDenied": 4, "ListServers Unavailable": 96}, 1, ""}, // half of the calls; too few
		{map[string]int{"GetServer PermissionDenied": 1, "ListServers PermissionDenied": 1}, 1, most + "GetServer, ListServers – " + get + "\n" + list},
		{nil, 10, most + "GetServer, ListServers – " + get + "\n" + list},
		{map[string]int{"ListServers OK": 1}, 1, most + "GetServer – " + get}, // ListServers is no longer refused
		{nil, 30, ""},
	} {
		for call, n := range step.calls {
			method, code, _ := strings.Cut(call, " ")
			metrics.call(method, code, n, 0)
		}
		a.sampleTimes(step.samples)
		if _, got := diagnoseService(a); got != step.want {
			t.Errorf("%+v: got %q", step, got)
		}
	}
}

// The page and the alerts have the same objective by default.
func TestObjectiveOfLatencyIsThatOfAlerts(t *testing.T) {
	rules, err := os.ReadFile("../../../../deploy/prometheus/rules/objectives.yaml")
	testkit.Must(t, err)
	match := regexp.MustCompile(`record: opsgate:objective:latency_seconds\s+expr: vector\((.+)\)`).FindSubmatch(rules)
	if match == nil {
		t.Fatal("there is no rule")
	}
	if of, err := strconv.ParseFloat(string(match[1]), 64); err != nil || of != slowLatency {
		t.Errorf("alerts have %s, the page has %v", match[1], slowLatency)
	}
}
