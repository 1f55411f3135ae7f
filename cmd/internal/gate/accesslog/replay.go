package accesslog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit"
)

// A Report compares the decisions of a log (before) with those under a configuration (after).
type Report struct {
	Summary

	Version string `json:"config_version"`
	Tokens  int    `json:"tokens"`
	Effect
	NewlyDeniedTokens int           `json:"newly_denied_tokens"`
	LowerBounds       bool          `json:"lower_bounds"` // the figures are, as requests are missing
	Limits            []LimitReport `json:"limits"`
	Denied            []TokenReport `json:"denied_tokens"` // those with newly denied requests, the most first
}

// An Effect compares decisions.
type Effect struct {
	DeniedBefore  uint64 `json:"denied_before"`
	DeniedAfter   uint64 `json:"denied_after"`
	NewlyDenied   uint64 `json:"newly_denied"`   // admitted in the log
	NewlyAdmitted uint64 `json:"newly_admitted"` // denied in the log
}

// A LimitReport is the effect of a limit of the configuration.
type LimitReport struct {
	Key         string  `json:"key"`
	Name        string  `json:"name"`
	Requests    int     `json:"requests"`
	Per         float64 `json:"per_seconds"`
	Shadow      bool    `json:"shadow,omitempty"`
	Denied      uint64  `json:"denied"` // of a limit in shadow the number that it would have denied
	NewlyDenied uint64  `json:"newly_denied"`
	Origin      string  `json:"origin"`
}

// A TokenReport is the effect on a token.
type TokenReport struct {
	TokenID  string `json:"token_id"`
	TeamID   string `json:"team_id"`
	Requests uint64 `json:"requests"`
	Effect
	Key string `json:"limits_of"` // in the configuration
}

// Replay decides the requests under a configuration, without the overrides that have expired by
// now: a gateway that starts with it does not have them.
func (log *Log) Replay(loaded config.Loaded, now time.Time) (*Report, error) {
	current, err := config.NewPolicies(loaded, now, nil)
	if err != nil {
		return nil, fmt.Errorf("policies of the configuration: %w", err)
	}
	r := &Report{Summary: log.Summary, Tokens: len(log.tokens), LowerBounds: log.Missing > 0, Denied: []TokenReport{}}
	r.Version = loaded.Version()
	limits, simulation := make(map[string][]LimitReport), newSimulation()
	for _, t := range log.tokens {
		report, a := t.report(), current.For(t.team, t.id, t.class)
		simulation.run(t, a.Policy, func(q *request, d *ratelimit.Decision) {
			before := report.NewlyDenied
			r.compare(q, d)
			report.compare(q, d)
			if limits[a.Key] == nil {
				limits[a.Key] = limitReports(a)
			}
			if by := max(d.DeniedBy, d.ShadowDeniedBy); by >= 0 { // one of them is -1
				limits[a.Key][by].Denied++
				limits[a.Key][by].NewlyDenied += report.NewlyDenied - before
			}
		})
		if report.NewlyDenied > 0 {
			report.Key = a.Key
			r.Denied = append(r.Denied, report)
		}
	}
	r.NewlyDeniedTokens = len(r.Denied)
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		r.Limits = append(r.Limits, limits[key]...)
	}
	slices.SortStableFunc(r.Denied, func(x, y TokenReport) int { return cmp.Compare(y.NewlyDenied, x.NewlyDenied) })
	r.Warnings = append(r.Warnings,
		fmt.Sprintf("usage before the log is not known: until %s, more may be admitted in this result than "+
			"would have been", r.From.Add(longest(loaded)).Format(time.RFC3339)))
	return r, nil
}

func (t *token) report() TokenReport {
	return TokenReport{TokenID: t.id, TeamID: t.team, Requests: uint64(len(t.requests))}
}

// compare counts a request by its decision in the log and that of a simulation.
func (e *Effect) compare(q *request, d *ratelimit.Decision) {
	if q.denied {
		e.DeniedBefore++
	}
	if !d.Allowed {
		e.DeniedAfter++
	}
	switch {
	case q.denied && d.Allowed:
		e.NewlyAdmitted++
	case !q.denied && !d.Allowed:
		e.NewlyDenied++
	}
}

func limitReports(a *ratelimit.Assignment) (list []LimitReport) {
	for _, l := range a.Policy.Limits() {
		list = append(list, LimitReport{
			Key: a.Key, Name: l.Name, Requests: l.Requests, Per: l.Per.Seconds(), Shadow: l.Shadow, Origin: a.Origin,
		})
	}
	return list
}
