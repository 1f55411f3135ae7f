package command

import (
	"fmt"
	"time"

	"opsgate/ratelimit/demand"
)

// An auditView is the JSON of an audit.
type auditView struct {
	Record        auditedRecord         `json:"record"`
	Violations    int                   `json:"tokens_above"`      // tokens with a window above its limit
	NotProved     int                   `json:"tokens_not_proved"` // tokens with windows above a limit that have a cause, and no other
	Proved        bool                  `json:"proved"`            // no window in Covered held more than its limit
	Covered       *spanView             `json:"covered,omitempty"` // the time in which all records have requests
	Gateways      int                   `json:"gateways"`          // largest number that the records count in Covered; 0 if it is not known
	Missing       []demand.Gap          `json:"missing"`           // what Covered lacks
	Records       []demand.Period       `json:"records"`
	Interruptions []demand.Interruption `json:"interruptions"`
	Warnings      []string              `json:"warnings"`
	Tokens        []auditedToken        `json:"tokens"`
}

// An auditedRecord describes the record.
type auditedRecord struct {
	*demand.AuditReport
	demand.Summary

	Tokens int `json:"tokens"`
}

// A spanView is the time between two requests.
type spanView struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// An auditedToken is a token with its fullest window.
type auditedToken struct {
	demand.TokenAudit
	tokenNames

	Worst     *windowView  `json:"worst,omitempty"`
	Above     []windowView `json:"above"`      // the fullest one for each limit
	NotProved []windowView `json:"not_proved"` // the fullest one for each limit and cause
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
	gaps, gateways := r.Gaps()
	v := auditView{
		Record: auditedRecord{r, about, len(r.Tokens)}, Violations: r.Violations(), NotProved: r.NotProved(), Gateways: gateways,
		Missing: append([]demand.Gap{}, gaps...), Records: r.Periods, Interruptions: append([]demand.Interruption{}, r.Interruptions...),
		Warnings: auditWarnings(r, about),
	}
	if from, to, ok := r.Covered(); ok {
		v.Covered = &spanView{from, to}
	}
	v.Proved = v.Covered != nil && v.Violations+v.NotProved+len(r.Interruptions)+len(gaps) == 0
	v.Tokens = make([]auditedToken, min(len(r.Tokens), max(top, v.Violations+v.NotProved)))
	for i := range v.Tokens {
		t := &r.Tokens[i]
		v.Tokens[i] = auditedToken{TokenAudit: *t, Above: viewWindows(t.Above), NotProved: viewWindows(t.NotProved)}
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
		warnings = append(warnings, fmt.Sprintf("a sample of %s of the tokens is audited: other tokens are not", sampleText(about)))
	}
	return append(warnings, countedTexts(
		countedText{r.Assumed, "requests are recorded without their limits: those of --config are assumed"},
		countedText{r.Unknown, "admissions are recorded without their limits: windows that end with them are not audited; give --config"},
		countedText{
			r.Local, "requests were decided by a gateway without the shared store: their windows may have 5% more than the limit, at least two",
		},
	)...)
}
