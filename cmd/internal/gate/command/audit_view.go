package command

import (
	"fmt"
	"time"

	"opsgate/ratelimit/demand"
)

// An auditView is the JSON of an audit.
type auditView struct {
	Record        auditedRecord      `json:"record"`
	Violations    int                `json:"tokens_above"`      // tokens with a window above its limit
	NotProved     int                `json:"tokens_not_proved"` // tokens with windows above a limit that have a cause, and no other
	Covered       *spanView          `json:"covered,omitempty"` // the time in which all records have requests
	Records       []periodView       `json:"records"`
	Interruptions []interruptionView `json:"interruptions"`
	Warnings      []string           `json:"warnings"`
	Tokens        []auditedToken     `json:"tokens"`
}

// An auditedRecord describes the record.
type auditedRecord struct {
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	Requests    uint64    `json:"requests"`
	Admitted    uint64    `json:"admitted"`
	Refunded    uint64    `json:"refunded"`
	Local       uint64    `json:"local"`
	Unknown     uint64    `json:"without_limits"`
	Tokens      int       `json:"tokens"`
	SampleLeast float64   `json:"sample_least"` // fractions of all tokens, 0 to 1
	SampleMost  float64   `json:"sample_most"`
	Dropped     uint64    `json:"dropped"`
}

// An interruptionView is a time in which the record does not show what a gateway counted.
type interruptionView struct {
	Kind   string     `json:"kind"`
	File   string     `json:"file"`
	From   *time.Time `json:"from,omitempty"`
	To     *time.Time `json:"to,omitempty"`
	Events uint64     `json:"events,omitempty"`
}

// A spanView is the time between two requests.
type spanView struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// A periodView is the time from the first to the last request of a gateway's record, if it has any.
type periodView struct {
	File string    `json:"file"`
	Span *spanView `json:"span,omitempty"`
}

// An auditedToken is a token with its fullest window.
type auditedToken struct {
	TokenID    string       `json:"token_id"`
	TeamID     string       `json:"team_id"`
	Requests   uint64       `json:"requests"`
	Admitted   uint64       `json:"admitted"`
	Refunded   uint64       `json:"refunded"`
	Violations uint64       `json:"admissions_above"`
	Worst      *windowView  `json:"worst,omitempty"`
	Above      []windowView `json:"above"`      // the fullest one for each limit
	NotProved  []windowView `json:"not_proved"` // the fullest one for each limit and cause
}

// A windowView is an interval of the length of a limit, from its first to its last admission.
type windowView struct {
	Limit    string    `json:"limit"`
	Requests int       `json:"requests"`
	Per      float64   `json:"per_seconds"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Admitted int       `json:"admitted"`
	Cause    string    `json:"cause,omitempty"` // outage 2026-01-02T12:00:00Z to 2026-01-02T12:03:00Z
}

// viewAudit returns the view of a report, with all tokens that have a window above a limit, and others up to top.
func viewAudit(r *demand.AuditReport, about demand.Summary, top int) auditView {
	v := auditView{
		Record: auditedRecord{
			From: r.From, To: r.To, Requests: r.Requests, Admitted: r.Admitted, Refunded: r.Refunded, Local: r.Local, Unknown: r.Unknown,
			Tokens: len(r.Tokens), SampleLeast: about.MinSample, SampleMost: about.MaxSample, Dropped: about.Dropped,
		},
		Violations: r.Violations(), NotProved: r.NotProved(), Warnings: auditWarnings(r, about),
		Interruptions: make([]interruptionView, len(r.Interruptions)), Records: make([]periodView, len(r.Periods)),
	}
	if from, to, ok := r.Covered(); ok {
		v.Covered = &spanView{from, to}
	}
	for i, p := range r.Periods {
		v.Records[i] = periodView{File: p.Path}
		if !p.From.IsZero() {
			v.Records[i].Span = &spanView{p.From, p.To}
		}
	}
	for i, x := range r.Interruptions {
		v.Interruptions[i] = interruptionView{Kind: string(x.Kind), File: x.Path, Events: x.Events}
		if !x.From.IsZero() {
			v.Interruptions[i].From, v.Interruptions[i].To = &x.From, &x.To
		}
	}
	v.Tokens = make([]auditedToken, min(len(r.Tokens), max(top, v.Violations+v.NotProved)))
	for i := range v.Tokens {
		t := &r.Tokens[i]
		v.Tokens[i] = auditedToken{
			TokenID: t.TokenID, TeamID: t.TeamID, Requests: t.Requests, Admitted: t.Admitted, Refunded: t.Refunded,
			Violations: t.Violations, Above: viewWindows(t.Above), NotProved: viewWindows(t.NotProved),
		}
		if t.Worst.Admitted > 0 {
			v.Tokens[i].Worst = &viewWindows([]demand.Window{t.Worst})[0]
		}
	}
	return v
}

func viewWindows(windows []demand.Window) []windowView {
	views := make([]windowView, len(windows))
	for i, w := range windows {
		views[i] = windowView{
			Limit: w.Limit.Name, Requests: w.Limit.Requests, Per: w.Limit.Per.Seconds(), From: w.From, To: w.To,
			Admitted: w.Admitted, Cause: causeText(w.Cause),
		}
	}
	return views
}

func causeText(c demand.Cause) string {
	if c.From.IsZero() {
		return string(c.Kind)
	}
	return string(c.Kind) + " " + spanText(c.From, c.To)
}

// spanText returns one time or two.
func spanText(from, to time.Time) string {
	if from.Equal(to) {
		return instantText(from)
	}
	return instantText(from) + " to " + instantText(to)
}

func instantText(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }

// auditWarnings returns what the audit does not prove, beside the interruptions.
func auditWarnings(r *demand.AuditReport, about demand.Summary) []string {
	warnings := []string{}
	if about.MinSample < 1 {
		warnings = append(warnings, fmt.Sprintf("a sample of %s of the tokens is audited: other tokens are not",
			sampleText(about.MinSample, about.MaxSample)))
	}
	return append(warnings, countedTexts(
		countedText{r.Assumed, "requests are recorded without their limits: those of --config are assumed"},
		countedText{r.Unknown, "admissions are recorded without their limits: windows that end with them are not audited; give --config"},
		countedText{
			r.Local, "requests were decided by a gateway without the shared store: their windows may have 5% more than the limit, at least two",
		},
	)...)
}
