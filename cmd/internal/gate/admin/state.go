package admin

import (
	"net/http"
	"strconv"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
)

const (
	maxAge     = time.Second / 2 // of the state that clients share, because each reading gathers all metrics
	busyOnPage = 10              // tokens with the most requests on the page
)

// State is the state of a gateway at one moment, as the page shows it.
type State struct {
	At           time.Time     `json:"at"`
	Host         string        `json:"host"`
	Version      string        `json:"version"`
	Up           float64       `json:"up_seconds"` // 0 if unknown
	Draining     bool          `json:"draining"`
	Verdict      string        `json:"verdict"`  // of the first finding, or "well"
	Findings     []Finding     `json:"findings"` // the most severe first
	Dependencies []*Dependency `json:"dependencies"`
	Limits       string        `json:"limits"` // completes the sentence "Limits are …"
	InFlight     float64       `json:"in_flight"`
	Busiest      []BusyToken   `json:"busiest"`
	Config       Configuration `json:"config"` // without Values
	Traffic      Traffic       `json:"traffic"`

	// What diagnose needs besides.
	store              Store
	failures           failures
	denials            map[string]denials
	unknownClasses     []string
	routes             []gateway.Route
	staleFor, freshFor string // the keys of authn with their values
}

// state responds with the State.
func (a *Admin) state(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	now := a.options.Clock()
	if age := now.Sub(a.readAt); age < 0 || age >= maxAge || a.latest.Draining != (a.phase.Load() == draining) {
		a.latest, a.readAt = a.readState(), now
	}
	latest := a.latest // not modified any more
	a.mu.Unlock()
	Respond(w, http.StatusOK, latest)
}

// readState reads the state of the gateway. The caller holds a.mu.
func (a *Admin) readState() State {
	now, active, r, history := a.now(), a.options.Active(), a.readMetrics(), a.samples
	s := State{
		At: now, Host: a.options.Host, Version: a.options.Version, Draining: a.phase.Load() == draining,
		Dependencies: a.dependencies(now), Limits: a.store().text(), InFlight: r.gauges[metricInFlight],
		Busiest: a.busy(busyOnPage), Config: active.Configuration, Traffic: history.traffic(),
		store: a.store(), failures: history.failures(), denials: history.denials(), routes: active.Gateway.Routes(),
		staleFor: staleForKey + " (" + config.DurationText(time.Duration(active.Loaded.Authn.StaleFor)) + ")",
		freshFor: freshForKey + " (" + config.DurationText(time.Duration(active.Loaded.Authn.FreshFor)) + ")",
	}
	if recent := history.latest(pointsPerMinute); len(recent) > 0 &&
		r.gauges[metricUnknown] > recent[0].gauges[metricUnknown] {
		s.unknownClasses = a.unknownClasses(active.Policies)
	}
	if start := r.gauges[metricStart]; start > 0 {
		s.Up = max(0, now.Sub(time.Unix(int64(start), 0)).Seconds())
	}
	for _, d := range s.Dependencies {
		d.Latencies = history.latencies(d.Name)
		if n, counted := r.gauges[d.Name]; counted {
			d.InUse = strconv.Itoa(int(n))
		}
		if d.Breaker != nil && d.Breaker.Team != "" {
			d.teamName = a.namesOf(d.Breaker.Team)[d.Breaker.Team]
		}
	}
	s.diagnose()
	return s
}

// Configuration is the configuration in force.
type Configuration struct {
	Version    string    `json:"version"`
	Since      time.Time `json:"since"` // when the version became active
	File       string    `json:"file"`  // "" for none
	LastReload *Reload   `json:"last_reload"`

	Certificates []config.Certificate `json:"certificates,omitempty"` // in use
	Values       []config.Value       `json:"values,omitempty"`       // all keys; nil in the State
}

// The outcomes of a reload.
const (
	ReloadApplied   = "applied"   // the configuration changed
	ReloadUnchanged = "unchanged" // the configuration is the same as before
	ReloadRefused   = "refused"   // the configuration is invalid; the old one stays active
)

// Reload is an attempt to apply a changed configuration.
type Reload struct {
	At       time.Time `json:"at"`
	Why      string    `json:"why"`
	Outcome  string    `json:"outcome"`
	Keys     []string  `json:"keys,omitempty"` // that were refused
	Problems []string  `json:"problems,omitempty"`
}

func (a *Admin) config(w http.ResponseWriter, r *http.Request) {
	active := a.options.Active()
	active.Values = active.Loaded.Effective()
	respond(w, decodeParameters(r).problems, func() any { return active.Configuration })
}
