package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"opsgate/ratelimit/demand"
)

// writeAudit prints the result in the first line, then the record, and then the fullest windows of the tokens.
func writeAudit(w io.Writer, v *auditView) error {
	fmt.Fprintf(w, "%s\n\n", auditResult(v))
	t := newTable(w)
	writeRecorded(t, v.Record.Total, v.Record.Tokens, v.Record.Summary)
	t.row("counted", fmt.Sprintf("%d admissions, and not %d that were refunded", v.Record.Admitted-v.Record.Refunded, v.Record.Refunded))
	for _, text := range missingTexts(v.Records, v.Missing, v.Record.From, v.Record.To) {
		t.row("not proved", text)
	}
	for _, x := range v.Interruptions {
		t.row("not proved", interruptionText(x))
	}
	for _, warning := range v.Warnings {
		t.row("warning", warning)
	}
	t.row()
	t.row("TOKEN", "TEAM", "ADMITTED", "LIMIT", "IN WINDOW", "FROM", "TO", "RESULT")
	for i := range v.Tokens {
		writeAuditedToken(t, &v.Tokens[i])
	}
	return t.Flush()
}

// auditResult returns the result in a line. Nothing is proved outside the time that all records cover.
func auditResult(v *auditView) string {
	if v.Violations > 0 {
		return fmt.Sprintf("%d of %d tokens were admitted more than their limits", v.Violations, v.Record.Tokens)
	}
	if v.Covered == nil {
		return "no violation found, but nothing is proved: there is no time in which all records have requests"
	}
	span := demand.SpanText(v.Covered.From, v.Covered.To)
	switch {
	case len(v.Missing) > 0:
		return fmt.Sprintf("no violation found from %s; not proved: %s", span, incompleteText(v))
	case v.NotProved > 0:
		return fmt.Sprintf("no violation found from %s; not proved for %d of %d tokens, for the cause under RESULT", span,
			v.NotProved, v.Record.Tokens)
	case len(v.Interruptions) > 0:
		return fmt.Sprintf("no violation found from %s; not proved where the record is interrupted", span)
	}
	return fmt.Sprintf("proved from %s: no window held more than its limit, of %d tokens", span, v.Record.Tokens)
}

// missingTexts returns which records do not cover a time, to a second, and the gaps: no two gateways get their first request at the same
// time, nor their last.
func missingTexts(records []demand.Period, gaps []demand.Gap, from, to time.Time) (texts []string) {
	for _, p := range records {
		var parts []string
		if p.Requests == 0 {
			parts = append(parts, "has no requests")
		} else {
			if p.From.Sub(from) >= time.Second {
				parts = append(parts, "begins only at "+p.From.Format(demand.TimeFormat))
			}
			if to.Sub(p.To) >= time.Second {
				parts = append(parts, "ends at "+p.To.Format(demand.TimeFormat))
			}
		}
		if len(parts) > 0 {
			texts = append(texts, "the record "+strings.Join(parts, " and ")+": "+p.Path)
		}
	}
	for _, g := range gaps {
		texts = append(texts, gapText(g))
	}
	return texts
}

// incompleteText describes the records that are missing.
func incompleteText(v *auditView) string {
	missing := 0
	for _, m := range v.Missing {
		missing += m.Missing
	}
	if missing == 0 {
		return "it is not known how many gateways shared the limits"
	}
	return fmt.Sprintf("%s missing, of up to %d gateways at a time", plural(missing, "record is", "records are"), v.Gateways)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func gapText(m demand.Gap) string {
	var what string
	switch {
	case m.Path != "":
		return "it is not known how many gateways shared the limits, " + demand.SpanText(m.From, m.To) + ": " + m.Path
	case m.Gateway != "":
		what = "gateway " + m.Gateway + " has no record"
	default:
		what = plural(m.Missing, "more gateway has", "more gateways have") + " no record"
	}
	return what + ", " + demand.SpanText(m.From, m.To)
}

func interruptionText(x demand.Interruption) string {
	text := string(x.Kind)
	switch {
	case x.Events > 0:
		text = fmt.Sprintf("%d events are missing", x.Events)
	case x.Kind == demand.GatewayStarted:
		text = "the gateway restarted"
	case x.Kind == demand.ClockSetBack:
		text = "the clock was set back"
	}
	if x.From.IsZero() {
		return text + " at an unknown time: " + x.Path
	}
	return fmt.Sprintf("%s, %s: %s", text, demand.SpanText(x.From, x.To), x.Path)
}

// writeAuditedToken writes the windows of a token above a limit, or its fullest one.
func writeAuditedToken(t table, k *auditedToken) {
	row := func(w *demand.Window, result string) {
		t.row(named(k.TokenID, k.TokenName), named(k.TeamID, k.TeamName), number(k.Admitted-k.Refunded),
			fmt.Sprintf("%d per %s", w.Limit.Requests, timeText(w.Limit.Per)), strconv.Itoa(w.Admitted),
			w.From.Format(demand.TimeFormat), w.To.Format(demand.TimeFormat), result)
	}
	for i := range k.Above {
		result := "above the limit"
		if cause := k.Above[i].Cause.String(); cause != "" {
			result = "above what is promised: " + cause
		}
		row(&k.Above[i], result)
	}
	for i := range k.NotProved {
		row(&k.NotProved[i], "not proved: "+k.NotProved[i].Cause.String())
	}
	if len(k.Above)+len(k.NotProved) == 0 && k.Worst.Admitted > 0 {
		row(&k.Worst, "held")
	}
}
