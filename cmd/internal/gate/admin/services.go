package admin

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"opsgate/backendclient/breaker"
	"opsgate/backendclient/endpoints"
	"opsgate/cmd/internal/gate/config"
)

// connectTimeout is the time after which a connection attempt counts as an outage.
const connectTimeout = 5 * time.Second

// diagnoseOutages returns the problems of dependencies but Redis, whose consequence diagnoseLimiter
// reports. Services that fail at the same endpoints for the same cause are one finding: one process
// carries them.
func (s *State) diagnoseOutages() (list []*Finding) {
	byFault := make(map[string][]*Dependency)
	for _, d := range s.Dependencies {
		byFault[d.fault()] = append(byFault[d.fault()], d)
	}
	for _, d := range s.Dependencies {
		group := byFault[d.fault()]
		if d.fault() == "" || len(group) == 1 {
			group = []*Dependency{d}
		}
		if f := s.diagnoseGroup(group); f != nil && d == group[0] && d.Name != dependencyRedis {
			list = append(list, f)
		}
	}
	for _, f := range list {
		s.addShare(f, len(list) == 1)
	}
	return list
}

// fault returns the endpoints of a service that fails as a whole, with the cause of each, a line
// each; "" for other dependencies. A process that answers with other errors than Unavailable may
// still serve some methods.
func (d *Dependency) fault() string {
	if d.OK || d.wrong != nil {
		return ""
	}
	var lines []string
	for _, e := range d.Endpoints {
		cause := sanitizeCause(e.Cause)
		if e.State == endpoints.Ready {
			if cause = sanitizeCause(d.Breaker.Cause); d.Breaker.Team != "" || !strings.HasPrefix(cause, "Unavailable") {
				return ""
			}
		}
		lines = append(lines, e.Address+": "+cmp.Or(cause, string(e.State)))
	}
	slices.Sort(lines)
	return listed(lines, maxLines, "\n")
}

// diagnoseGroup returns the problem of services that fail together, or of one dependency, if it has
// one.
func (s *State) diagnoseGroup(group []*Dependency) *Finding {
	if len(group) == 1 {
		return s.diagnoseDependency(group[0])
	}
	since := slices.MinFunc(group, func(a, b *Dependency) int { return a.Since.Compare(b.Since) }).Since
	names := make([]string, len(group))
	for i, d := range group {
		names[i] = d.Name
	}
	f := s.finding("outage:"+strings.Join(names, ","), strings.Join(names, ", ")+": unavailable"+forTime(since, s.At),
		group[0].fault())
	for _, d := range group {
		f.setTokensUntil(d.tokensUntil, s.At)
	}
	return f
}

// addShare adds the share of requests that fails now to a finding of services. alone is whether
// there is no other one.
func (s *State) addShare(f *Finding, alone bool) {
	var failing uint64
	for _, route := range s.routes {
		if route.Service != "" && f.concerns(route.Service) {
			failing += s.failures.lastByRoute[route.ID]
		}
	}
	if f.concerns(dependencyIdentity) { // all routes need it
		failing = s.failures.lastFailed
	}
	if !alone || failing < s.failures.lastFailed {
		f.Impact = strings.TrimSuffix(f.Impact, othersWork)
	}
	if failing > 0 {
		f.share = float64(failing) / float64(s.failures.lastAll)
		f.Impact = fmt.Sprintf("%.0f %% of all requests fail now: %s", math.Ceil(100*f.share), f.Impact)
	}
}

// diagnoseDependency returns the problem of a dependency, if it has one. The finding's key does not
// change with each probe.
func (s *State) diagnoseDependency(d *Dependency) *Finding {
	var f *Finding
	switch b := d.Breaker; {
	case d.wrong != nil:
		f = s.finding("wrong:"+d.Name, d.Name+": wrong service at its address"+forTime(d.Since, s.At),
			strings.Join(d.wrong.Addresses, ", ")+": answers as another service")
		if d.notReady {
			f.Impact = "this gateway is not ready, and balancers send it no requests"
		}
	case b != nil && b.State != breaker.Closed:
		f = s.finding("breaker:"+d.Name, d.Name+": breaker "+d.BreakerText, b.Cause)
		if b.Team != "" {
			f.Impact = fmt.Sprintf("requests of team %s that need %s get 503 at once; other teams are served",
				strings.TrimSpace(d.teamName+" "+b.Team), d.Name)
		} else if len(b.Methods) > 0 && d.hasReadyEndpoint() {
			f.Impact = fmt.Sprintf("requests that call %s of %s get 503 at once if the last call of their team failed; "+
				"others are served",
				strings.Join(b.Methods, ", "), d.Name)
		}
	case d.OK:
		return nil
	default:
		f = s.finding("connection:"+d.Name, d.Name+": "+d.State+forTime(d.Since, s.At), d.Reason)
		if d.Name == dependencyRevocations { // requests are served without the stream
			f.Detail = "the revocation stream of the identity service is down"
			f.Text += "; revoked tokens are detected late"
			// requests wait for the connection
		} else if (d.State == "connecting" || d.State == "idle") && s.At.Sub(d.Since) < connectTimeout {
			f.Verdict = verdictImpaired
		}
	}
	f.setTokensUntil(d.tokensUntil, s.At)
	return f
}

// setTokensUntil sets the deadline while lookups of tokens fail; until is when the last cached
// token ends.
func (f *Finding) setTokensUntil(until, now time.Time) {
	switch {
	case until.IsZero():
	case until.After(now):
		f.Deadline = "known tokens work until " + until.UTC().Format("15:04:05") + " UTC at most; then all requests get 503"
	default:
		f.Impact, f.Deadline = "all requests get 503: no token is cached any more", "it stays so until lookups succeed"
	}
}

// diagnoseLookup returns the finding that the name of a service does not resolve.
func (s *State) diagnoseLookup(d *Dependency) *Finding {
	if d.lookup == nil {
		return nil
	}
	f := s.finding("dns:"+d.Name, d.Name+": its name does not resolve"+forTime(d.lookup.Since, s.At), d.lookup.Cause)
	if !d.hasReadyEndpoint() {
		lost := s.finding("connection:"+d.Name, "", "")
		f.Verdict, f.Impact, f.Deadline = lost.Verdict, lost.Impact, lost.Deadline
	}
	return f
}

// diagnoseEndpoints returns the finding that some endpoints of a service that is available do not
// get calls. An endpoint that has not been connected for connectTimeout counts: shorter
// interruptions belong to every deployment of a service.
func (s *State) diagnoseEndpoints(d *Dependency) *Finding {
	var details []string
	for _, e := range d.Endpoints {
		if e.State == endpoints.Ready ||
			e.State != endpoints.Ejected && s.At.Sub(e.Since) < connectTimeout {
			continue
		}
		detail := e.Address + " is " + string(e.State) + forTime(e.Since, s.At)
		if e.Cause != "" {
			detail += ": " + e.Cause
		}
		details = append(details, detail)
	}
	if !d.OK || len(details) == 0 {
		return nil
	}
	slices.Sort(details)
	text := fmt.Sprintf("%s: %d of %s get no calls", d.Name, len(details), counted(len(d.Endpoints), "endpoint"))
	return s.finding("endpoints:"+d.Name, text, listed(details, maxLines, "\n"))
}

// hasReadyEndpoint reports whether a service has an endpoint that gets calls.
func (d *Dependency) hasReadyEndpoint() bool {
	return slices.ContainsFunc(d.Endpoints,
		func(e endpoints.Status) bool { return e.State == endpoints.Ready })
}

const (
	// slowLatency is the latency that 99 % of the requests of operations are promised:
	// deploy/prometheus/rules/objectives.yaml.
	slowLatency = .5
	// minCalls is the number of calls in ten seconds from which their 99th percentile is a finding,
	// and minSlowCalls how many of them are slow: of fewer than a hundred, the percentile is the
	// slowest one.
	minCalls, minSlowCalls = 20, 2
)

// diagnoseLatency finds a service that is so slow that requests miss the objective of their
// latency.
func (s *State) diagnoseLatency(d *Dependency) *Finding {
	l := d.Latencies
	if l == nil || l.P99 == nil || l.P99.Seconds < slowLatency || l.calls < minCalls || l.slow < minSlowCalls {
		return nil
	}
	return s.finding("slow:"+d.Name,
		fmt.Sprintf("%s: slow, half of its calls take %s and one in a hundred %s in the last 10s", d.Name, l.P50, l.P99),
		fmt.Sprintf("in the last 5m: %s and %s", l.P50Of5m, l.P99Of5m))
}

// String returns the latency in whole milliseconds.
func (l *Latency) String() string {
	text := config.DurationText(time.Duration(l.Seconds*1e3) * time.Millisecond)
	if l.Over {
		return "more than " + text
	}
	return text
}

// minDenied is the number of denied calls from which a method is a finding. OpsgateServiceRefuses
// in deploy/prometheus has the same.
const minDenied = 5

// diagnoseDenials finds the methods of a service most of whose calls are denied. A service may deny
// a resource to a team, but then other calls succeed: it, or a policy in front of it, refuses the
// gateway itself.
func (s *State) diagnoseDenials(service string) *Finding {
	var methods, details []string
	for _, name := range slices.Sorted(maps.Keys(s.denials)) {
		of, method, _ := strings.Cut(name, ".")
		if d := s.denials[name]; of == service && d.denied >= minDenied && 2*d.denied > d.answered && d.ongoing {
			methods = append(methods, method)
			details = append(details,
				fmt.Sprintf("%s: %d of %s in the last 5m", method, d.denied, counted(int(d.answered), "call")))
		}
	}
	if methods == nil {
		return nil
	}
	text := service + ": PermissionDenied for most calls of " + strings.Join(methods, ", ")
	return s.finding("refused:"+service, text, listed(details, maxLines, "\n"))
}
