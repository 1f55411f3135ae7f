package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"opsgate/cmd/internal/admin"
)

// The verdicts on a gateway.
const (
	Well     = "well"
	Impaired = "impaired" // requests are served, but somebody should know
	Broken   = "broken"   // requests fail
)

// A Finding is something that is wrong.
type Finding struct {
	Key     string `json:"key"` // the same for as long as the same is wrong
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
	Detail  string `json:"detail,omitempty"`
}

// A sight is all that findings are made of.
type sight struct {
	now          time.Time
	draining     bool
	dependencies []Dependency
	store        admin.Store
	reload       *admin.Reload // nil for none
	failures     failures
}

// findings says in words what is wrong, the worst first.
func findings(s sight) []Finding {
	list := []Finding{}
	if s.draining {
		list = append(list, Finding{"draining", Impaired, "This gateway is draining: it will end, and load balancers send nothing more", ""})
	}
	list = append(list, ofLimiter(s.store, s.now)...)
	for _, d := range s.dependencies {
		if f, wrong := d.finding(s.now); wrong && d.Name != Redis {
			list = append(list, f)
		}
	}
	list = append(list, ofFailures(s.failures)...)
	if r := s.reload; r != nil && r.Outcome == "refused" {
		list = append(list, Finding{"reload", Impaired, fmt.Sprintf("The configuration on disk was refused %s ago (%s)",
			words(s.now.Sub(r.At)), counted(len(r.Problems), "problem")), strings.Join(r.Problems, "\n")})
	}
	slices.SortStableFunc(list, func(a, b Finding) int { return severity(b) - severity(a) })
	return list
}

func severity(f Finding) int {
	if f.Verdict == Broken {
		return 1
	}
	return 0
}

// connectingFor is how long a connection may take to be made before requests are taken to fail for it.
const connectingFor = 5 * time.Second

// finding says what is wrong with a dependency. Its key says nothing that changes with each probe.
func (d Dependency) finding(now time.Time) (f Finding, wrong bool) {
	if b := d.Breaker; b != nil && b.State != breakerClosed {
		return Finding{"breaker:" + d.Name, Broken, d.Name + ": breaker " + b.text(now), b.Cause}, true
	}
	if d.OK {
		return Finding{}, false
	}
	f = Finding{"connection:" + d.Name, Broken, d.Name + ": " + d.State + lasting(d.Since, now), d.Reason}
	switch {
	case d.Name == Revocations: // requests are answered without them
		f.Verdict, f.Detail = Impaired, "the identity service's stream is away"
		f.Text = "Revocations of tokens have not been heard of" + lasting(d.Since, now) + ": they are noticed late"
	case (d.State == "connecting" || d.State == "idle") && now.Sub(d.Since) < connectingFor: // a request waits for it
		f.Verdict = Impaired
	}
	return f, true
}

// ofLimiter says what becomes of limits while the store that gateways share is away.
func ofLimiter(s admin.Store, now time.Time) []Finding {
	v := limiterView(s, now)
	if v.OK {
		return nil
	}
	f := Finding{"limiter:" + s.Mode, Impaired, "redis: away; limits are " + v.Text, ""}
	if s.Mode == "deny" {
		f.Verdict = Broken
	}
	if s.Breaker != nil {
		f.Detail = s.Breaker.Cause
	}
	return []Finding{f}
}

// manyFail is the part of requests above which failures are no accident.
const manyFail = .05

// routesNamed is how many routes are named where requests fail.
const routesNamed = 3

func ofFailures(f failures) []Finding {
	if f.failed == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %s in the last minute failed (5xx)", f.failed, counted(int(f.all), "request"))
	verdict := Impaired
	switch {
	case f.over > 0:
		text += ", none of the last " + words(f.over)
	case float64(f.failed) >= manyFail*float64(f.all):
		verdict = Broken
	}
	routes := slices.SortedFunc(maps.Keys(f.byRoute), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.byRoute[b], f.byRoute[a]), cmp.Compare(a, b))
	})
	var named []string
	for _, route := range routes[:min(len(routes), routesNamed)] {
		named = append(named, fmt.Sprintf("%s: %d", route, f.byRoute[route]))
	}
	if more := len(routes) - len(named); more > 0 {
		named = append(named, counted(more, "more route"))
	}
	return []Finding{{"failures:" + verdict, verdict, text, strings.Join(named, ", ")}}
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// lasting says for how long something is so, as the end of a sentence; nothing where that is not known.
func lasting(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " for " + words(now.Sub(since))
}

// words says a duration, with a second unit where it matters.
func words(d time.Duration) string {
	s := max(0, int(d.Round(time.Second)/time.Second))
	switch m, h := s/60, s/3600; {
	case m == 0:
		return strconv.Itoa(s) + " s"
	case m < 10:
		return pair(m, "min", s%60, "s")
	case h == 0:
		return strconv.Itoa(m) + " min"
	case h < 24:
		return pair(h, "h", m%60, "min")
	default:
		return pair(h/24, "d", h%24, "h")
	}
}

func pair(n int, unit string, more int, smaller string) string {
	if more == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, more, smaller)
}
