package console

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"opsgate/cmd/internal/admin"
)

// busyTokens is how many of the tokens that ask most are shown.
const busyTokens = 10

// Names of dependencies without which requests are served nevertheless.
const (
	Redis       = "redis" // the store that gateways share: what happens without it, the limiter's mode says
	Revocations = "revocations"
)

// A Dependency is something that the gateway needs.
type Dependency struct {
	Name    string
	State   string // in words: "ready", "connecting"
	OK      bool
	Reason  string    // why it is not; "" where that is not known
	Since   time.Time // it is not OK; zero where it is, and where that is not known
	Breaker *Breaker
}

// A Breaker keeps calls from what does not answer.
type Breaker struct {
	State    string    // closed, open or half-open
	Since    time.Time // it has not been closed; zero for closed ones and where that is not known
	ProbesAt time.Time // an open one lets a call through; zero for other states and where that is not known
	Cause    string
}

// The states of a breaker.
const (
	breakerClosed   = "closed"
	breakerOpen     = "open"
	breakerHalfOpen = "half-open"
)

// A State is how a gateway stands at one moment, as the page shows it.
type State struct {
	At           time.Time         `json:"at"`
	Host         string            `json:"host"`
	Version      string            `json:"version"`
	Up           float64           `json:"up_seconds"` // 0 for not known
	Draining     bool              `json:"draining"`
	Verdict      string            `json:"verdict"`  // Well, Impaired or Broken: the worst of the findings
	Findings     []Finding         `json:"findings"` // the worst first
	Dependencies []DependencyView  `json:"dependencies"`
	Limiter      LimiterView       `json:"limiter"`
	InFlight     float64           `json:"in_flight"`
	Memory       float64           `json:"memory_bytes"`
	Goroutines   float64           `json:"goroutines"`
	Busiest      []admin.BusyToken `json:"busiest"`
	Config       ConfigView        `json:"config"`
}

// A DependencyView is a dependency with its times as they are told.
type DependencyView struct {
	Name     string       `json:"name"`
	State    string       `json:"state"`
	OK       bool         `json:"ok"`
	Since    *time.Time   `json:"since"` // it is not OK; null where it is, and where that is not known
	Reason   string       `json:"reason,omitempty"`
	Breaker  *BreakerView `json:"breaker"`   // null where calls have none
	InFlight *float64     `json:"in_flight"` // calls under way; null where that is not counted
}

// A BreakerView is a breaker with its times as they are told.
type BreakerView struct {
	State string `json:"state"`
	Text  string `json:"text"` // state, since when, and what comes next
	Cause string `json:"cause,omitempty"`
}

// A LimiterView says where budgets are counted.
type LimiterView struct {
	Mode string `json:"mode"`
	Text string `json:"text"`
	OK   bool   `json:"ok"`
}

// A ConfigView is what is in force.
type ConfigView struct {
	Version    string        `json:"version"`
	Since      time.Time     `json:"since"`
	File       string        `json:"file"` // "" for none
	LastReload *admin.Reload `json:"last_reload"`
}

// state looks at the gateway.
func (c *Console) state() State {
	now, r, source := c.options.Clock(), c.read(), c.options.Source
	config, dependencies, store := source.Configuration(), source.Dependencies(), source.Store()
	s := State{
		At: now.UTC().Truncate(time.Millisecond), Host: c.options.Host, Version: c.options.Version, Draining: c.isDraining(),
		Limiter: limiterView(store, now), Dependencies: []DependencyView{},
		InFlight: r.gauges[metricInFlight], Memory: r.gauges[metricMemory], Goroutines: r.gauges[metricGoroutines],
		Busiest: source.Busiest(busyTokens),
		Config:  ConfigView{Version: config.Version, Since: config.Since.UTC(), File: config.File, LastReload: config.LastReload},
	}
	if s.Busiest == nil {
		s.Busiest = []admin.BusyToken{}
	}
	if start := r.gauges[metricStart]; start > 0 {
		s.Up = max(0, now.Sub(time.Unix(int64(start), 0)).Seconds())
	}
	for _, d := range dependencies {
		s.Dependencies = append(s.Dependencies, dependencyView(d, r, now))
	}
	s.Findings = findings(sight{
		now: now, draining: s.Draining, dependencies: dependencies, store: store, reload: config.LastReload,
		failures: c.history.failures(),
	})
	s.Verdict = Well
	if len(s.Findings) > 0 {
		s.Verdict = s.Findings[0].Verdict
	}
	return s
}

func dependencyView(d Dependency, r readings, now time.Time) DependencyView {
	v := DependencyView{Name: d.Name, State: d.State, OK: d.OK, Reason: d.Reason}
	if !d.OK && !d.Since.IsZero() {
		since := d.Since.UTC().Truncate(time.Millisecond)
		v.Since = &since
	}
	if n, counted := r.inFlight[d.Name]; counted {
		v.InFlight = &n
	}
	if b := d.Breaker; b != nil {
		v.Breaker = &BreakerView{State: b.State, Text: b.text(now), Cause: b.Cause}
	}
	return v
}

// text says how a breaker stands, and what comes next.
func (b *Breaker) text(now time.Time) string {
	text := b.State
	if b.State != breakerClosed {
		text += lasting(b.Since, now)
	}
	switch {
	case b.State == breakerHalfOpen:
		return text + ", a few calls are let through"
	case b.State != breakerOpen || b.ProbesAt.IsZero():
		return text
	case b.ProbesAt.After(now):
		return text + ", next probe in " + words(b.ProbesAt.Sub(now)+time.Second/2-1) // rounded up: it does not come before
	default:
		return text + ", the next call is a probe"
	}
}

// limiterView says in words who counts.
func limiterView(s admin.Store, now time.Time) LimiterView {
	texts := map[string]string{
		"memory": "counted in this process alone",
		"shared": "counted in Redis, with all gateways",
		"local":  "counted by each gateway for itself",
		"allow":  "not counted, every request is admitted",
		"deny":   "not counted, every request is refused",
	}
	if s.Mode == "local" && s.Replicas > 1 {
		texts[s.Mode] = fmt.Sprintf("counted by each gateway for itself, a share of 1/%d each", s.Replicas)
	}
	v := LimiterView{Mode: s.Mode, Text: cmp.Or(texts[s.Mode], s.Mode), OK: slices.Contains([]string{"memory", "shared"}, s.Mode)}
	if !v.OK && s.Since != nil {
		v.Text += " for " + words(now.Sub(*s.Since))
	}
	return v
}
