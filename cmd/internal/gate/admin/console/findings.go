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
	Runbook string `json:"runbook"` // page and section in docs/operate/runbooks, such as "limits.md#redis-is-unavailable"
}

// snapshot is the input of diagnose.
type snapshot struct {
	now          time.Time
	draining     bool
	dependencies map[string]admin.Dependency
	store        admin.Store
	reload       *admin.Reload // nil for none
	failures     failures
	gateways     admin.Gateways
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
	for _, name := range slices.Sorted(maps.Keys(s.dependencies)) {
		if name == admin.DependencyRedis {
			continue // diagnoseLimiter reports its consequence
		}
		if f, wrong := diagnoseDependency(name, s.dependencies[name], s.now); wrong {
			list = append(list, f)
		}
		if f, wrong := diagnoseEndpoints(name, s.dependencies[name], s.now); wrong {
			list = append(list, f)
		}
	}
	list = append(list, diagnoseFailures(s.failures)...)
	if r := s.reload; r != nil && r.Outcome == admin.ReloadRefused {
		list = append(list, Finding{
			Key: "reload", Verdict: verdictImpaired, Detail: strings.Join(r.Problems, "\n"), Runbook: "configuration.md#a-reload-failed",
			Text: fmt.Sprintf("The configuration on disk was refused %s ago (%s)",
				duration.Rounded(s.now.Sub(r.At)), refusedKeys(*r)),
		})
	}
	list = append(list, diagnoseGateways(s.gateways, s.now)...)
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
func diagnoseDependency(name string, d admin.Dependency, now time.Time) (f Finding, wrong bool) {
	if b := d.Breaker; b != nil && b.State != backendclient.BreakerClosed {
		return Finding{
			Key: "breaker:" + name, Verdict: verdictBroken, Text: name + ": breaker " + breakerText(*b, now), Detail: b.Cause,
			Runbook: cmp.Or(dependencyRunbooks[name], "services.md#a-breaker-is-open"),
		}, true
	}
	if d.OK {
		return Finding{}, false
	}
	f = Finding{
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
	return f, true
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
	switch {
	case f.quietFor > 0:
		text += ", none in the last " + duration.Rounded(f.quietFor)
	case float64(f.failed) >= brokenFailureRatio*float64(f.all):
		verdict = verdictBroken
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
