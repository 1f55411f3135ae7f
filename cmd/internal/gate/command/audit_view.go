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
		v.Tokens[i].TokenAudit = r.Tokens[i]
	}
	return v
}

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
