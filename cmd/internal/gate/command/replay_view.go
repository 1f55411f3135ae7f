package command

import (
	"fmt"
	"time"

	"opsgate/ratelimit/demand"
)

// A replayView is the JSON of a replay. Before is the recorded decisions, after those under the configuration.
type replayView struct {
	Version           string        `json:"config_version"`
	Record            recordView    `json:"record"`
	Before            refusalsView  `json:"before"`
	After             refusalsView  `json:"after"`
	NewlyDenied       uint64        `json:"newly_denied"`
	NewlyAdmitted     uint64        `json:"newly_admitted"`
	NewlyDeniedTokens int           `json:"newly_denied_tokens"`
	Limits            []limitResult `json:"limits"`
	Tokens            []tokenResult `json:"tokens"` // with the most newly denied requests
	Warnings          []string      `json:"warnings"`
	Exceeded          []string      `json:"bounds_passed"`
}

// A recordView describes the record.
type recordView struct {
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	Requests    uint64    `json:"requests"`
	Tokens      int       `json:"tokens"`
	SampleLeast float64   `json:"sample_least"` // fractions of all tokens, 0 to 1
	SampleMost  float64   `json:"sample_most"`
	Dropped     uint64    `json:"dropped"`
	Local       uint64    `json:"local"`
	Cached      uint64    `json:"cached"`
	Late        uint64    `json:"late"`
	Window      float64   `json:"longest_window_seconds"`
	Uncertain   uint64    `json:"uncertain"` // requests inside the first window
}

// A refusalsView is the number of denied requests and the time during which tokens were denied.
type refusalsView struct {
	Admitted  uint64  `json:"admitted"`
	Denied    uint64  `json:"denied"`
	DeniedFor float64 `json:"kept_out_seconds"`
	Longest   float64 `json:"longest_kept_out_seconds"`
}

// A limitResult is the effect of a limit.
type limitResult struct {
	Key         string  `json:"key"`
	Origin      string  `json:"origin"`
	Name        string  `json:"name"`
	Requests    int     `json:"requests,omitempty"` // 0 if the configuration has no such limit
	Per         float64 `json:"per_seconds,omitempty"`
	Shadow      bool    `json:"shadow,omitempty"`
	Before      uint64  `json:"denied_before"`
	After       uint64  `json:"denied_after"`
	NewlyDenied uint64  `json:"newly_denied"`
}

// A tokenResult is the effect on a token.
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
	return refusalsView{Admitted: requests - r.Denied, Denied: r.Denied, DeniedFor: r.Duration.Seconds(), Longest: r.Longest.Seconds()}
}

// replayWarnings returns the reasons why the result may be inexact.
func replayWarnings(r *demand.Report, about demand.Summary) []string {
	from, until := r.From.Format(time.RFC3339), r.From.Add(r.Window).Format(time.RFC3339)
	unknown := fmt.Sprintf("the usage before %s is not recorded: of the %d requests before %s, more may be admitted in this result "+
		"than would have been", from, r.Uncertain, until)
	if r.Uncertain == r.Requests {
		unknown = fmt.Sprintf("the usage before %s is not recorded, and the record is shorter than the longest limit: more may be "+
			"admitted in this result than would have been", from)
	}
	warnings := []string{unknown}
	return append(warnings, countedTexts(
		countedText{r.Local, "requests were decided by a gateway without the shared store: the result before may differ from the limits"},
		countedText{about.Dropped, "events are missing in the record: more may be admitted in this result than would have been"},
		countedText{r.Late, "events were recorded long after later ones: a clock was set back"},
	)...)
}

// A countedText is a text about a number of events.
type countedText struct {
	n    uint64
	text string
}

// countedTexts returns the texts whose number is not 0, with their numbers.
func countedTexts(all ...countedText) (texts []string) {
	for _, c := range all {
		if c.n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", c.n, c.text))
		}
	}
	return texts
}
