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
	t.row("record", periodText(v.Record.From, v.Record.To))
	t.row("of", fmt.Sprintf("%d requests of %d tokens, a sample of %s", v.Record.Requests, v.Record.Tokens,
		sampleText(v.Record.SampleLeast, v.Record.SampleMost)))
	t.row("counted", fmt.Sprintf("%d admissions, and not %d that were refunded", v.Record.Admitted-v.Record.Refunded, v.Record.Refunded))
	for _, p := range v.Records {
		if text := outsideText(p, v.Record); text != "" {
			t.row("not proved", text)
		}
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
	span := spanText(v.Covered.From, v.Covered.To)
	switch {
	case v.NotProved > 0:
		return fmt.Sprintf("no violation found from %s; not proved for %d of %d tokens, for the cause under RESULT", span,
			v.NotProved, v.Record.Tokens)
	case len(v.Interruptions) > 0:
		return fmt.Sprintf("no violation found from %s; not proved where the record is interrupted", span)
	}
	return fmt.Sprintf("proved from %s: no window held more than its limit, of %d tokens", span, v.Record.Tokens)
}

// outsideText returns when a record does not cover the time of all records; empty if it does, to a second. No two gateways get their
// first request at the same time, nor their last.
func outsideText(p periodView, all auditedRecord) string {
	var parts []string
	if p.Span == nil {
		return "the record has no requests: " + p.File
	}
	if p.Span.From.Sub(all.From) >= time.Second {
		parts = append(parts, "begins only at "+instantText(p.Span.From))
	}
	if all.To.Sub(p.Span.To) >= time.Second {
		parts = append(parts, "ends at "+instantText(p.Span.To))
	}
	if len(parts) == 0 {
		return ""
	}
	return "the record " + strings.Join(parts, " and ") + ": " + p.File
}

func interruptionText(x interruptionView) string {
	text := x.Kind
	switch {
	case x.Events > 0:
		text = fmt.Sprintf("%d events are missing", x.Events)
	case x.Kind == string(demand.GatewayStarted):
		text = "the gateway restarted"
	case x.Kind == string(demand.ClockSetBack):
		text = "the clock was set back"
	}
	if x.From == nil {
		return text + " at an unknown time: " + x.File
	}
	return fmt.Sprintf("%s, %s: %s", text, spanText(*x.From, *x.To), x.File)
}

// writeAuditedToken writes the windows of a token above a limit, or its fullest one.
func writeAuditedToken(t table, k *auditedToken) {
	row := func(w *windowView, result string) {
		t.row(k.TokenID, k.TeamID, number(k.Admitted-k.Refunded), fmt.Sprintf("%d per %s", w.Requests, secondsText(w.Per)),
			strconv.Itoa(w.Admitted), instantText(w.From), instantText(w.To), result)
	}
	for i := range k.Above {
		result := "above the limit"
		if cause := k.Above[i].Cause; cause != "" {
			result = "above what is promised: " + cause
		}
		row(&k.Above[i], result)
	}
	for i := range k.NotProved {
		row(&k.NotProved[i], "not proved: "+k.NotProved[i].Cause)
	}
	if len(k.Above)+len(k.NotProved) == 0 && k.Worst != nil {
		row(k.Worst, "held")
	}
}
