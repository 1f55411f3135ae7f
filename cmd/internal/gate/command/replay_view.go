package command

import (
	"fmt"
	"time"

	"opsgate/ratelimit/demand"
)

// A replayView is the JSON of a replay. Before is the recorded decisions, after those under the configuration.
type replayView struct {
	Version           string         `json:"config_version"`
	Record            recordView     `json:"record"`
	Before            demand.Denials `json:"before"`
	After             demand.Denials `json:"after"`
	NewlyDenied       uint64         `json:"newly_denied"`
	NewlyAdmitted     uint64         `json:"newly_admitted"`
	NewlyDeniedTokens int            `json:"newly_denied_tokens"`
	Limits            []limitResult  `json:"limits"`
	Tokens            []tokenResult  `json:"tokens"` // with the most newly denied requests
	Warnings          []string       `json:"warnings"`
	Exceeded          []string       `json:"bounds_passed"`
}

// A recordView describes the record.
type recordView struct {
	*demand.Report
	demand.Summary

	Tokens int     `json:"tokens"`
	Window float64 `json:"longest_window_seconds"`
}

// A limitResult is the effect of a limit.
type limitResult struct {
	demand.LimitReport

	Requests int     `json:"requests,omitempty"` // 0 if the configuration has no such limit
	Per      float64 `json:"per_seconds,omitempty"`
	Shadow   bool    `json:"shadow,omitempty"`
}

// A tokenResult is the effect on a token.
type tokenResult struct {
	demand.TokenReport
	tokenNames
}

func viewReplay(r *demand.Report, about demand.Summary, top int) replayView {
	v := replayView{
		Record: recordView{r, about, len(r.Tokens), r.Window.Seconds()},
		Before: r.Before, After: r.After,
		NewlyDenied: r.NewlyDenied, NewlyAdmitted: r.NewlyAdmitted, NewlyDeniedTokens: newlyDeniedTokens(r),
		Limits: make([]limitResult, len(r.Limits)), Warnings: replayWarnings(r, about),
	}
	for i, l := range r.Limits {
		v.Limits[i] = limitResult{l, l.Limit.Requests, l.Limit.Per.Seconds(), l.Limit.Shadow}
	}
	v.Tokens = make([]tokenResult, min(top, v.NewlyDeniedTokens))
	for i := range v.Tokens {
		v.Tokens[i].TokenReport = r.Tokens[i]
	}
	return v
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
