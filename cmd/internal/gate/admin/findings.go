package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"opsgate/cmd/internal/gate/config"
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
	// page and section in docs/operate/runbooks, such as "limits.md#redis-is-unavailable"
	Runbook string `json:"runbook"`

	share float64 // of all requests, that fails now because of it
}

// diagnose sets the findings, the most severe first, and the verdicts. Of those with a verdict, the
// one by which most requests fail is first.
func (s *State) diagnose() {
	list := []Finding{}
	add := func(f *Finding) {
		if f != nil {
			list = append(list, *f)
		}
	}
	if s.Draining {
		add(s.finding("draining", "This gateway is draining: it will stop, and load balancers send it no more requests", ""))
	}
	add(s.diagnoseLimiter())
	add(s.diagnoseEviction())
	if len(s.unknownClasses) > 0 {
		add(s.finding("classes", "identity names classes of limits that the configuration does not have: "+
			listed(s.unknownClasses, maxLines, ", "), ""))
	}
	for _, f := range s.diagnoseOutages() {
		add(f)
	}
	for _, d := range s.Dependencies {
		if d.Name != dependencyRedis {
			add(s.diagnoseEndpoints(d))
			add(s.diagnoseLookup(d))
			add(s.diagnoseLatency(d))
			add(s.diagnoseDenials(d.Name))
		}
	}
	add(s.diagnoseFailures())
	add(s.diagnoseReload())
	for _, c := range s.Config.Certificates {
		add(s.diagnoseCertificate(c))
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(b.share, a.share)) // "broken" before "impaired"
	})
	s.Findings, s.Verdict = list, verdictWell
	if len(list) > 0 {
		s.Verdict = list[0].Verdict
	}
	for _, d := range s.Dependencies {
		d.Verdict = verdictWell
		if i := slices.IndexFunc(list, func(f Finding) bool { return f.concerns(d.Name) }); i >= 0 {
			d.Verdict = list[i].Verdict
		}
	}
}

// concerns reports whether the finding is about a dependency.
func (f *Finding) concerns(dependency string) bool {
	kind, about, _ := strings.Cut(f.Key, ":")
	return slices.Contains(strings.Split(about, ","), dependency) ||
		dependency == dependencyRedis && (kind == "limiter" || kind == "eviction")
}

// diagnoseLimiter returns the mode of the rate limiter while Redis is unavailable.
func (s *State) diagnoseLimiter() *Finding {
	if s.store.Mode == ratelimit.ModeMemory || s.store.Mode == ratelimit.ModeShared {
		return nil
	}
	f := s.finding("limiter:"+string(s.store.Mode),
		"redis: unavailable"+forTime(*s.store.Since, s.At)+"; limits are "+s.store.text(),
		s.store.Breaker.Cause)
	_, f.Action = redisCause(s.store.Breaker.Cause)
	return f
}

// text completes the sentence "Limits are …".
func (s Store) text() string {
	texts := map[ratelimit.Mode]string{
		ratelimit.ModeMemory: "counted in this process only",
		ratelimit.ModeShared: "counted in Redis, shared by all gateways",
		ratelimit.ModeLocal:  "counted by each gateway separately",
		ratelimit.ModeAllow:  "not counted, every request is admitted",
		ratelimit.ModeDeny:   "not counted, every request is refused",
	}
	if s.Mode == ratelimit.ModeLocal && s.Replicas > 1 {
		return fmt.Sprintf("%s, with a share of 1/%d each", texts[s.Mode], s.Replicas)
	}
	return texts[s.Mode]
}

// diagnoseEviction finds a Redis that deletes accounts when its memory is full. A token then gets
// its limits anew.
func (s *State) diagnoseEviction() *Finding {
	if s.store.EvictingServers == 0 {
		return nil
	}
	f := s.finding("eviction", "redis: its maxmemory-policy evicts keys, and with them the usage of tokens", "")
	if s.store.EvictedKeys > 0 {
		f.Detail = counted(int(s.store.EvictedKeys), "key") + " evicted since this gateway started"
	}
	return f
}

// brokenFailureRatio is the ratio of failed requests from which the gateway counts as broken.
const brokenFailureRatio = .05

func (s *State) diagnoseFailures() *Finding {
	f := s.failures
	if f.failed == 0 {
		return nil
	}
	verdict := verdictImpaired
	text := fmt.Sprintf("%d of %s in the last minute failed (5xx)", f.failed, counted(int(f.all), "request"))
	if f.quietFor > 0 {
		text += ", none in the last " + config.RoundedDuration(f.quietFor)
	} else {
		text += fmt.Sprintf(", %d of %d in the last 10s", f.lastFailed, f.lastAll)
		if float64(f.failed) >= brokenFailureRatio*float64(f.all) ||
			float64(f.lastFailed) >= brokenFailureRatio*float64(f.lastAll) {
			verdict = verdictBroken
		}
	}
	routes := slices.SortedFunc(maps.Keys(f.byRoute), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.byRoute[b], f.byRoute[a]), cmp.Compare(a, b))
	})
	for i, route := range routes {
		routes[i] = fmt.Sprintf("%s: %d", route, f.byRoute[route])
	}
	found := s.finding("failures:"+verdict, text, listed(routes, 3, ", "))
	found.Verdict = verdict
	return found
}

// diagnoseReload returns the finding that the last reload was refused.
func (s *State) diagnoseReload() *Finding {
	r := s.Config.LastReload
	if r == nil || r.Outcome != ReloadRefused {
		return nil
	}
	what, problems := "configuration", counted(len(r.Problems), "problem")
	if len(r.Keys) > 0 {
		problems += ": " + listed(r.Keys, 3, ", ")
	}
	ofCertificates := len(r.Keys) > 0 &&
		!slices.ContainsFunc(r.Keys, func(key string) bool { return !strings.HasSuffix(key, "_file") })
	if ofCertificates {
		what = "certificate"
	}
	f := s.finding("reload",
		fmt.Sprintf("The %s on disk was refused %s ago (%s)", what, config.RoundedDuration(s.At.Sub(r.At)), problems),
		strings.Join(r.Problems, "\n"))
	if ofCertificates {
		f.Impact, f.Runbook = "the certificates from before are used; no change of the configuration applies",
			runbookCertificates
	}
	return f
}

// diagnoseCertificate returns the finding that a certificate is not valid yet, has ended, or ends
// soon.
func (s *State) diagnoseCertificate(c config.Certificate) *Finding {
	left, wait := c.Ends.Sub(s.At), c.Begins.Sub(s.At)
	if left >= config.RenewBefore && wait <= 0 {
		return nil
	}
	f := s.finding("certificate:"+c.Key, c.Key+" expires in "+config.RoundedDuration(left), "")
	if strings.HasPrefix(c.Key, "tracing.") { // read at the start
		f.Action = "renew it, replace its file, and restart the gateways one after the other"
	}
	switch {
	case left <= 0:
		f.Verdict, f.Text, f.Impact = verdictBroken, c.Key+" expired "+config.RoundedDuration(-left)+" ago",
			withoutCertificate(c.Key)
	case wait > 0:
		f.Verdict, f.Text = verdictBroken, c.Key+" is not valid for another "+config.RoundedDuration(wait)
		f.Impact, f.Deadline = withoutCertificate(c.Key), "it stays so until "+c.Begins.Format(time.DateTime)+" UTC"
		f.Action = "compare date on this machine with another one; if it is right, use the previous certificate until then"
	default:
		f.Deadline = c.Ends.Format(time.DateTime) + " UTC: then " + withoutCertificate(c.Key)
	}
	return f
}

// withoutCertificate returns what fails when the certificate or the roots of a key have expired.
func withoutCertificate(key string) string {
	part, rest, _ := strings.Cut(key, ".")
	switch part {
	case "upstreams":
		service, _, _ := strings.Cut(rest, ".")
		return "new connections to " + service + " fail, and requests that need it get 503"
	case "rate_limit":
		return "new connections to Redis fail, and limits are not shared"
	case "tracing":
		return "traces are lost; requests are served"
	case "admin":
		return "operators, probes and Prometheus cannot connect; requests are served"
	}
	return "clients cannot connect"
}

// maxLines is the number of lines of a detail: a service may have hundreds of endpoints.
const maxLines = 5

// listed returns the first texts, and the number of the others.
func listed(texts []string, most int, separator string) string {
	if more := len(texts) - most; more > 0 {
		texts = append(slices.Clone(texts[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, separator)
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
	return " for " + config.RoundedDuration(now.Sub(since))
}
