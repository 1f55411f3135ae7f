package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/kit/duration"
	"opsgate/ratelimit"
)

// Verdicts.
const (
	verdictWell     = "well"
	verdictImpaired = "impaired" // requests are served, but an operator should act
	verdictBroken   = "broken"   // requests fail
)

// Finding is a problem of the gateway.
type Finding struct {
	Key     string `json:"key"` // identifies the problem, and is constant while it lasts
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
	Detail  string `json:"detail,omitempty"`

	// What an operator reads first, a line each.
	Impact   string `json:"impact"`   // what clients see: "requests of incidents get 503; the rest of the API works"
	Deadline string `json:"deadline"` // when it becomes worse, and what happens then; or when it ends
	Action   string `json:"action"`   // the first thing to do: a command, a query, or where to look
	Runbook  string `json:"runbook"`  // page and section in docs/operate/runbooks, such as "limits.md#redis-is-unavailable"
}

// snapshot is the input of diagnose.
type snapshot struct {
	now          time.Time
	draining     bool
	dependencies map[string]admin.Dependency
	store        admin.Store
	reload       *admin.Reload // nil for none
	certificates []config.Certificate
	failures     failures
	latencies    map[string]Latencies // of services
	denials      map[string]denials   // of methods
	values       *strings.Replacer    // of the keys that impacts and deadlines name: it adds the value to a key
}

// diagnose returns the problems of a gateway, the most severe first.
func diagnose(s snapshot) []Finding {
	list := []Finding{}
	if s.draining {
		list = append(list, Finding{
			Key: "draining", Verdict: verdictImpaired, Text: "This gateway is draining: it will stop, and load balancers send it no more requests",
			Runbook: "gateways.md#a-gateway-is-draining",
		})
	}
	list = append(list, diagnoseLimiter(s.store, s.now)...)
	list = append(list, diagnoseEviction(s.store)...)
	for _, name := range slices.Sorted(maps.Keys(s.dependencies)) {
		if name == admin.DependencyRedis {
			continue // diagnoseLimiter reports its consequence
		}
		d := s.dependencies[name]
		for _, f := range []*Finding{
			diagnoseDependency(name, d, s.now), diagnoseEndpoints(name, d, s.now), diagnoseLookup(name, d, s.now),
			diagnoseLatency(name, s.latencies[name]), diagnoseDenials(name, s.denials),
		} {
			if f != nil {
				list = append(list, *f)
			}
		}
	}
	list = append(list, diagnoseFailures(s.failures)...)
	if r := s.reload; r != nil && r.Outcome == admin.ReloadRefused {
		f := Finding{
			Key: "reload", Verdict: verdictImpaired, Detail: strings.Join(r.Problems, "\n"), Runbook: "configuration.md#a-reload-failed",
			Text: fmt.Sprintf("The configuration on disk was refused %s ago (%s)",
				duration.Rounded(s.now.Sub(r.At)), refusedKeys(*r)),
		}
		if isOfCertificates(r.Keys) {
			f.Text = strings.Replace(f.Text, "configuration", "certificate", 1)
			f.Impact, f.Runbook = "the certificates from before are used; no change of the configuration applies", runbookRefusedCertificate
		}
		list = append(list, f)
	}
	list = append(list, diagnoseCertificates(s.certificates, s.now)...)
	for i := range list {
		list[i].advise()
		list[i].Impact, list[i].Deadline = s.values.Replace(list[i].Impact), s.values.Replace(list[i].Deadline)
	}
	slices.SortStableFunc(list, func(a, b Finding) int { return severity(b) - severity(a) })
	return list
}

// refusedKeys returns the number of problems of a refused reload, and the first keys that have one.
func refusedKeys(r admin.Reload) string {
	const most = 3
	text := counted(len(r.Problems), "problem")
	if len(r.Keys) == 0 {
		return text
	}
	text += ": " + strings.Join(r.Keys[:min(most, len(r.Keys))], ", ")
	if more := len(r.Keys) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func severity(f Finding) int {
	if f.Verdict == verdictBroken {
		return 1
	}
	return 0
}

// connectTimeout is the time after which a connection attempt counts as an outage.
const connectTimeout = 5 * time.Second

// diagnoseDependency returns the problem of a dependency, if it has one. The finding's key does not change with each probe.
func diagnoseDependency(name string, d admin.Dependency, now time.Time) (f *Finding) {
	defer func() { f.setTokensUntil(d.TokensUntil, now) }()
	if d.WrongEndpoints != nil {
		return wrongService(name, d, now)
	}
	if b := d.Breaker; b != nil && b.State != backendclient.BreakerClosed {
		f = &Finding{
			Key: "breaker:" + name, Verdict: verdictBroken, Text: name + ": breaker " + breakerText(d, now), Detail: b.Cause,
			Runbook: cmp.Or(dependencyRunbooks[name], "services.md#a-breaker-is-open"),
		}
		switch {
		case len(b.Methods) > 0 && b.Team == "" && hasReadyEndpoint(d):
			f.Impact = fmt.Sprintf("requests that call %s of %s get 503 at once if the last call of their team failed; others are served",
				strings.Join(b.Methods, ", "), name)
		case b.Team != "":
			f.Impact = fmt.Sprintf("requests of team %s that need %s get 503 at once; other teams are served",
				strings.TrimSpace(d.TeamName+" "+b.Team), name)
		}
		return f
	}
	if d.OK {
		return nil
	}
	f = &Finding{
		Key: "connection:" + name, Verdict: verdictBroken, Text: name + ": " + d.State + forTime(d.Since, now), Detail: d.Reason,
		Runbook: cmp.Or(dependencyRunbooks[name], "gateways.md#a-gateway-is-degraded"),
	}
	switch {
	case name == admin.DependencyRevocations: // requests are served without the stream
		f.Verdict, f.Detail = verdictImpaired, "the revocation stream of the identity service is down"
		f.Text += "; revoked tokens are detected late"
	case (d.State == "connecting" || d.State == "idle") && now.Sub(d.Since) < connectTimeout: // requests wait for the connection
		f.Verdict = verdictImpaired
	}
	return f
}

// wrongService is the finding of a service with endpoints of another service.
func wrongService(name string, d admin.Dependency, now time.Time) *Finding {
	f := &Finding{
		Key: "wrong:" + name, Verdict: verdictBroken, Text: name + ": wrong service at its address" + forTime(d.Since, now),
		Detail:  strings.Join(d.WrongEndpoints.Addresses, ", ") + ": answers as another service",
		Runbook: "services.md#wrong-service-at-an-address",
	}
	if d.NotReady {
		f.Impact = "this gateway is not ready, and balancers send it no requests"
	}
	return f
}

// setTokensUntil sets the deadline of a finding while lookups of tokens fail; until is when the last cached token ends.
func (f *Finding) setTokensUntil(until, now time.Time) {
	switch {
	case f == nil || until.IsZero():
	case until.After(now):
		f.Deadline = "known tokens work until " + until.UTC().Format("15:04:05") + " UTC at most; then all requests get 503"
	default:
		f.Impact, f.Deadline = "all requests get 503: no token is cached any more", "it stays so until lookups succeed"
	}
}

// dependencyRunbooks has the runbooks of dependencies whose outage has a section of its own.
var dependencyRunbooks = map[string]string{
	"identity":                  "identity.md#tokens-are-served-stale",
	admin.DependencyRevocations: "identity.md#revocations-are-not-received",
	admin.DependencyCapacity:    "gateways.md#a-gateway-is-full",
	admin.DependencyConnections: "gateways.md#a-gateway-has-too-many-connections",
}

// diagnoseLimiter returns the mode of the rate limiter while Redis is unavailable.
func diagnoseLimiter(s admin.Store, now time.Time) []Finding {
	if limiterView(s, now).OK {
		return nil
	}
	text := "redis: unavailable"
	if s.Since != nil {
		text += forTime(*s.Since, now)
	}
	f := Finding{
		Key: "limiter:" + string(s.Mode), Verdict: verdictImpaired, Text: text + "; limits are " + limiterText(s),
		Runbook: "limits.md#redis-is-unavailable",
	}
	if s.Mode == ratelimit.ModeDeny {
		f.Verdict = verdictBroken
	}
	if s.Breaker != nil {
		f.Detail = s.Breaker.Cause
	}
	return []Finding{f}
}

// diagnoseEviction finds a Redis that deletes accounts when its memory is full. A token then gets its limits anew.
func diagnoseEviction(s admin.Store) []Finding {
	if s.EvictingServers == 0 {
		return nil
	}
	f := Finding{
		Key: "eviction", Verdict: verdictImpaired, Text: "redis: its maxmemory-policy evicts keys, and with them the usage of tokens",
		Runbook: "limits.md#redis-evicts-keys",
	}
	if s.EvictedKeys > 0 {
		f.Detail = counted(int(s.EvictedKeys), "key") + " evicted since this gateway started"
	}
	return []Finding{f}
}

const (
	// slowLatency is the latency that 99 % of the requests of operations are promised: deploy/prometheus/rules/objectives.yaml.
	slowLatency = .5
	// minCalls is the number of calls in ten seconds from which their 99th percentile is a finding, and minSlowCalls how many of them are
	// slow: of fewer than a hundred, the percentile is the slowest one.
	minCalls, minSlowCalls = 20, 2
)

// diagnoseLatency finds a service that is so slow that requests miss the objective of their latency.
func diagnoseLatency(name string, l Latencies) *Finding {
	if l.P99 == nil || l.P99.Seconds < slowLatency || l.Calls < minCalls || l.slow < minSlowCalls {
		return nil
	}
	text := func(l *Latency) string {
		if l.Over {
			return "more than " + duration.Text(seconds(l.Seconds))
		}
		return duration.Text(seconds(l.Seconds))
	}
	return &Finding{
		Key: "slow:" + name, Verdict: verdictImpaired, Runbook: "services.md#a-service-is-slow",
		Text:   fmt.Sprintf("%s: slow, half of its calls take %s and one in a hundred %s in the last 10s", name, text(l.P50), text(l.P99)),
		Detail: fmt.Sprintf("in the last 5m: %s and %s", text(l.P50Of5m), text(l.P99Of5m)),
	}
}

// seconds returns a time in whole milliseconds.
func seconds(s float64) time.Duration { return time.Duration(s*1e3) * time.Millisecond }

const (
	// brokenFailureRatio is the ratio of failed requests from which the gateway counts as broken.
	brokenFailureRatio = .05
	// maxNamedRoutes is the number of routes that a finding of failed requests names.
	maxNamedRoutes = 3
)

func diagnoseFailures(f failures) []Finding {
	if f.failed == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %s in the last minute failed (5xx)", f.failed, counted(int(f.all), "request"))
	verdict := verdictImpaired
	if f.quietFor > 0 {
		text += ", none in the last " + duration.Rounded(f.quietFor)
	} else {
		text += fmt.Sprintf(", %d of %d in the last 10s", f.lastFailed, f.lastAll)
		if float64(f.failed) >= brokenFailureRatio*float64(f.all) || float64(f.lastFailed) >= brokenFailureRatio*float64(f.lastAll) {
			verdict = verdictBroken
		}
	}
	routes := slices.SortedFunc(maps.Keys(f.byRoute), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.byRoute[b], f.byRoute[a]), cmp.Compare(a, b))
	})
	var named []string
	for _, route := range routes[:min(len(routes), maxNamedRoutes)] {
		named = append(named, fmt.Sprintf("%s: %d", route, f.byRoute[route]))
	}
	if more := len(routes) - len(named); more > 0 {
		named = append(named, counted(more, "more route"))
	}
	return []Finding{{
		Key: "failures:" + verdict, Verdict: verdict, Text: text, Detail: strings.Join(named, ", "), Runbook: "promises.md#clients-read-5xx",
	}}
}

// maxLines is the number of lines in the detail of a finding, before the number of further ones.
const maxLines = 5

// joined returns the lines of a detail. Their number is bounded, because a service may have hundreds of endpoints.
func joined(lines []string) string {
	if more := len(lines) - maxLines; more > 0 {
		lines = append(slices.Clone(lines[:maxLines]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// counted returns "1 what" or "n whats".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// forTime returns " for " and the time since a moment, or "" if the moment is unknown.
func forTime(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " for " + duration.Rounded(now.Sub(since))
}
