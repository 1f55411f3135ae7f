package gatewaycmd

import (
	"fmt"
	"time"

	"opsgate/ratelimit/demand"
)

// A replayView is the result of a replay, as JSON has it. Before is what was recorded, after what would have been.
type replayView struct {
	Version           string        `json:"config_version"`
	Record            recordView    `json:"record"`
	Before            refusalsView  `json:"before"`
	After             refusalsView  `json:"after"`
	NewlyDenied       uint64        `json:"newly_denied"`
	NewlyAdmitted     uint64        `json:"newly_admitted"`
	NewlyDeniedTokens int           `json:"newly_denied_tokens"`
	Limits            []limitResult `json:"limits"`
	Tokens            []tokenResult `json:"tokens"` // those of which most would be newly denied
	Warnings          []string      `json:"warnings"`
	Passed            []string      `json:"bounds_passed"`
}

// A recordView says what a record covers.
type recordView struct {
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	Requests    uint64    `json:"requests"`
	Tokens      int       `json:"tokens"`
	SampleLeast float64   `json:"sample_least"` // parts of all tokens, 0 to 1
	SampleMost  float64   `json:"sample_most"`
	Dropped     uint64    `json:"dropped"`
	Local       uint64    `json:"local"`
	Cached      uint64    `json:"cached"`
	Late        uint64    `json:"late"`
	Window      float64   `json:"longest_window_seconds"`
	Uncertain   uint64    `json:"uncertain"` // requests inside the first window
}

// A refusalsView is how many requests are denied, and for how long tokens are kept out.
type refusalsView struct {
	Admitted uint64  `json:"admitted"`
	Denied   uint64  `json:"denied"`
	KeptOut  float64 `json:"kept_out_seconds"`
	Longest  float64 `json:"longest_kept_out_seconds"`
}

// A limitResult is what a limit does.
type limitResult struct {
	Key         string  `json:"key"`
	Origin      string  `json:"origin"`
	Name        string  `json:"name"`
	Requests    int     `json:"requests,omitempty"` // none where the configuration has no such limit any more
	Per         float64 `json:"per_seconds,omitempty"`
	Shadow      bool    `json:"shadow,omitempty"`
	Before      uint64  `json:"denied_before"`
	After       uint64  `json:"denied_after"`
	NewlyDenied uint64  `json:"newly_denied"`
}

// A tokenResult is what becomes of a token.
type tokenResult struct {
	TokenID       string       `json:"token_id"`
	TeamID        string       `json:"team_id"`
	Key           string       `json:"limits_of"`
	Before        refusalsView `json:"before"`
	After         refusalsView `json:"after"`
	NewlyDenied   uint64       `json:"newly_denied"`
	NewlyAdmitted uint64       `json:"newly_admitted"`
	First         time.Time    `json:"first_newly_denied_at"`
}

func viewReplay(r *demand.Report, about demand.Summary, top int) replayView {
	v := replayView{
		Record: recordView{
			From: r.From, To: r.To, Requests: r.Requests, Tokens: len(r.Tokens),
			SampleLeast: about.MinSample, SampleMost: about.MaxSample, Dropped: about.Dropped,
			Local: r.Local, Cached: r.Cached, Late: r.Late, Window: r.Window.Seconds(), Uncertain: r.Uncertain,
		},
		Before: viewRefusals(r.Before, r.Requests), After: viewRefusals(r.After, r.Requests),
		NewlyDenied: r.NewlyDenied, NewlyAdmitted: r.NewlyAdmitted, NewlyDeniedTokens: newlyDeniedTokens(r),
		Limits: make([]limitResult, len(r.Limits)), Warnings: replayWarnings(r, about),
	}
	for i, l := range r.Limits {
		v.Limits[i] = limitResult{
			Key: l.Key, Origin: l.Origin, Name: l.Name, Requests: l.Limit.Requests, Per: l.Limit.Per.Seconds(), Shadow: l.Limit.Shadow,
			Before: l.Before, After: l.After, NewlyDenied: l.NewlyDenied,
		}
	}
	v.Tokens = make([]tokenResult, min(top, v.NewlyDeniedTokens))
	for i := range v.Tokens {
		t := &r.Tokens[i]
		v.Tokens[i] = tokenResult{
			TokenID: t.TokenID, TeamID: t.TeamID, Key: t.Key,
			Before: viewRefusals(t.Before, t.Requests), After: viewRefusals(t.After, t.Requests),
			NewlyDenied: t.NewlyDenied, NewlyAdmitted: t.NewlyAdmitted, First: t.First,
		}
	}
	return v
}

func viewRefusals(r demand.Denials, requests uint64) refusalsView {
	return refusalsView{Admitted: requests - r.Denied, Denied: r.Denied, KeptOut: r.Duration.Seconds(), Longest: r.Longest.Seconds()}
}

// replayWarnings says what the record does not know.
func replayWarnings(r *demand.Report, about demand.Summary) []string {
	from, until := r.From.Format(time.RFC3339), r.From.Add(r.Window).Format(time.RFC3339)
	unknown := fmt.Sprintf("what tokens had spent before %s is not known: of the %d requests soon after, until %s at most, more may be "+
		"admitted here than would be", from, r.Uncertain, until)
	if r.Uncertain == r.Requests {
		unknown = fmt.Sprintf("what tokens had spent before %s is not known, and the record ends inside their longest limits: more may be "+
			"admitted here than would be", from)
	}
	warnings := []string{unknown}
	for _, w := range []struct {
		n    uint64
		text string
	}{
		{r.Local, "requests were decided by one gateway alone, as the store that gateways share was away: before is not what the limits say"},
		{about.Dropped, "events are missing in the record: more may be admitted here than would be"},
		{r.Late, "events were recorded long after later ones: a clock was set back"},
	} {
		if w.n > 0 {
			warnings = append(warnings, fmt.Sprintf("%d %s", w.n, w.text))
		}
	}
	return warnings
}
