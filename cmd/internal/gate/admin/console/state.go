package console

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/duration"
	"opsgate/ratelimit"
)

// busiestTokens is the number of tokens that the page lists.
const busiestTokens = 10

// State is the state of a gateway at one moment, as the page shows it.
type State struct {
	At           time.Time           `json:"at"`
	Host         string              `json:"host"`
	Version      string              `json:"version"`
	Up           float64             `json:"up_seconds"` // 0 if unknown
	Draining     bool                `json:"draining"`
	Verdict      string              `json:"verdict"`  // of the first finding, or "well"
	Quiet        bool                `json:"quiet"`    // no request was counted in the last minute
	Findings     []Finding           `json:"findings"` // the most severe first
	Dependencies []DependencyView    `json:"dependencies"`
	Limiter      LimiterView         `json:"limiter"`
	InFlight     float64             `json:"in_flight"`
	Memory       float64             `json:"memory_bytes"`
	Goroutines   float64             `json:"goroutines"`
	Busiest      []admin.BusyToken   `json:"busiest"`
	Config       admin.Configuration `json:"config"` // without Values
	Traffic      Traffic             `json:"traffic"`
}

// DependencyView is a row of the page's table of dependencies.
type DependencyView struct {
	Name     string       `json:"name"`
	State    string       `json:"state"`
	OK       bool         `json:"ok"`
	Since    *time.Time   `json:"since"` // when OK became false; null if OK or unknown
	Reason   string       `json:"reason,omitempty"`
	Verdict  string       `json:"verdict"`   // of its most severe finding, or "well"
	Breaker  *BreakerView `json:"breaker"`   // null for a dependency without a breaker
	InFlight *float64     `json:"in_flight"` // calls; null if not counted
	Load     *admin.Load  `json:"load"`      // null for a dependency that is not a limit

	Endpoints []EndpointView `json:"endpoints,omitempty"` // addresses of an internal service
	Latencies *Latencies     `json:"latencies"`           // null for a dependency that has not been called
}

// place returns the place of a dependency in the table: services first.
func place(name string) int {
	return 1 + slices.Index([]string{
		admin.DependencyRedis, admin.DependencyRevocations, admin.DependencyCapacity, admin.DependencyConnections,
	}, name)
}

// BreakerView is a breaker with its state in words.
type BreakerView struct {
	admin.Breaker

	Text string `json:"text"` // the state, for how long, and what follows
}

// LimiterView states where requests are counted for rate limits.
type LimiterView struct {
	Mode ratelimit.Mode `json:"mode"`
	Text string         `json:"text"` // completes the sentence "Limits are …"
	OK   bool           `json:"ok"`
}

// state reads the state of the gateway.
func (c *Console) state() State {
	now, r, source := c.options.Clock(), c.read(), c.options.Source
	active, dependencies, store := source.Configuration(), maps.Clone(source.Dependencies()), source.Store()
	var values []string
	for _, v := range active.Values {
		if v.Key == staleForKey || v.Key == freshForKey {
			values = append(values, v.Key, fmt.Sprintf("%s (%s)", v.Key, v.Value))
		}
	}
	active.Since, active.Values = active.Since.UTC(), nil
	for name, d := range dependencies {
		if d.Breaker != nil && d.Breaker.Team != "" {
			d.TeamName = source.Names([]string{d.Breaker.Team})[d.Breaker.Team]
			dependencies[name] = d
		}
	}
	s := State{
		At: now.UTC().Truncate(time.Millisecond), Host: c.options.Host, Version: c.options.Version, Draining: c.draining.Load(),
		Limiter: limiterView(store, now), Dependencies: []DependencyView{},
		InFlight: r.gauges[metricInFlight], Memory: r.gauges[metricMemory], Goroutines: r.gauges[metricGoroutines],
		Busiest: source.Busiest(busiestTokens), Config: active, Traffic: c.history.traffic(),
	}
	if s.Busiest == nil {
		s.Busiest = []admin.BusyToken{}
	}
	if start := r.gauges[metricStart]; start > 0 {
		s.Up = max(0, now.Sub(time.Unix(int64(start), 0)).Seconds())
	}
	latencies := c.services.latencies()
	for _, name := range slices.Sorted(maps.Keys(dependencies)) {
		v := dependencyView(name, dependencies[name], r, now)
		if l, called := latencies[name]; called {
			v.Latencies = &l
		}
		s.Dependencies = append(s.Dependencies, v)
	}
	slices.SortStableFunc(s.Dependencies, func(a, b DependencyView) int { return place(a.Name) - place(b.Name) })
	failures := c.history.failures()
	s.Quiet = failures.all == 0
	s.Findings = diagnose(snapshot{
		now: now, draining: s.Draining, dependencies: dependencies, store: store, reload: active.LastReload, certificates: active.Certificates,
		failures: failures, latencies: latencies, denials: c.methods.denials(), values: strings.NewReplacer(values...),
	})
	s.Verdict = s.verdictOf("")
	for i := range s.Dependencies {
		s.Dependencies[i].Verdict = s.verdictOf(s.Dependencies[i].Name)
	}
	return s
}

// verdictOf returns the verdict of the first finding about a dependency, "" for all, or "well".
func (s *State) verdictOf(dependency string) string {
	for _, f := range s.Findings {
		kind, about, _ := strings.Cut(f.Key, ":")
		if dependency == "" || about == dependency || dependency == admin.DependencyRedis && (kind == "limiter" || kind == "eviction") {
			return f.Verdict
		}
	}
	return verdictWell
}

func dependencyView(name string, d admin.Dependency, r readings, now time.Time) DependencyView {
	v := DependencyView{Name: name, State: d.State, OK: d.OK, Reason: d.Reason, Load: d.Load, Endpoints: endpointViews(d.Endpoints)}
	if !d.OK && !d.Since.IsZero() {
		since := d.Since.UTC().Truncate(time.Millisecond)
		v.Since = &since
	}
	if n, counted := r.inFlight[name]; counted {
		v.InFlight = &n
	}
	if b := d.Breaker; b != nil {
		v.Breaker = &BreakerView{Breaker: admin.BreakerOf(*b), Text: breakerText(d, now)}
	}
	return v
}

// breakerText returns the state of the breaker of a dependency, for how long, and what follows.
func breakerText(d admin.Dependency, now time.Time) string {
	b := d.Breaker
	text := string(b.State)
	if b.State != backendclient.BreakerClosed {
		text += forTime(b.TrippedAt, now)
	}
	if len(b.Methods) > 0 {
		text += ", for " + strings.Join(b.Methods, ", ")
	}
	if b.Team != "" {
		text += ", only for team " + strings.TrimSpace(d.TeamName+" "+b.Team)
	}
	switch {
	case b.State == backendclient.BreakerHalfOpen:
		return text + ", a few calls are allowed"
	case b.State != backendclient.BreakerOpen || b.HalfOpenAt.IsZero():
		return text
	case b.HalfOpenAt.After(now):
		return text + ", next probe in " + duration.Rounded(b.HalfOpenAt.Sub(now)+time.Second/2-1) // rounded up
	default:
		return text + ", the next call is a probe"
	}
}

// limiterView returns the state of the rate limit store.
func limiterView(s admin.Store, now time.Time) LimiterView {
	v := LimiterView{Mode: s.Mode, Text: limiterText(s), OK: s.Mode == ratelimit.ModeMemory || s.Mode == ratelimit.ModeShared}
	if !v.OK && s.Since != nil {
		v.Text += "," + forTime(*s.Since, now)
	}
	return v
}

// limiterText completes the sentence "Limits are …".
func limiterText(s admin.Store) string {
	texts := map[ratelimit.Mode]string{
		ratelimit.ModeMemory: "counted in this process only",
		ratelimit.ModeShared: "counted in Redis, shared by all gateways",
		ratelimit.ModeLocal:  "counted by each gateway separately",
		ratelimit.ModeAllow:  "not counted, every request is admitted",
		ratelimit.ModeDeny:   "not counted, every request is refused",
	}
	if s.Mode == ratelimit.ModeLocal && s.Replicas > 1 {
		return fmt.Sprintf("counted by each gateway separately, with a share of 1/%d each", s.Replicas)
	}
	return texts[s.Mode]
}
