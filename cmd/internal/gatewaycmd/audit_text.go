package gatewaycmd

import (
	"fmt"
	"io"
	"strconv"
)

// writeAudit prints the result in the first line, then the record, and then the fullest windows of the tokens.
func writeAudit(w io.Writer, v *auditView) error {
	fmt.Fprintf(w, "%s\n\n", auditResult(v))
	t := newTable(w)
	t.row("record", periodText(v.Record.From, v.Record.To))
	t.row("of", fmt.Sprintf("%d requests of %d tokens, a sample of %s", v.Record.Requests, v.Record.Tokens,
		sampleText(v.Record.SampleLeast, v.Record.SampleMost)))
	t.row("counted", fmt.Sprintf("%d admissions, without %d that were refunded", v.Record.Admitted-v.Record.Refunded, v.Record.Refunded))
	for _, x := range v.Interruptions {
		t.row("not proved", interruptionText(x))
	}
	for _, warning := range v.Warnings {
		t.row("warning", warning)
	}
	t.row()
	t.row("TOKEN", "TEAM", "ADMITTED", "LIMIT", "MOST", "FROM", "TO", "RESULT")
	for i := range v.Tokens {
		writeAuditedToken(t, &v.Tokens[i])
	}
	return t.Flush()
}

func auditResult(v *auditView) string {
	switch {
	case v.Violations > 0:
		return fmt.Sprintf("%d of %d tokens were admitted more than their limits", v.Violations, v.Record.Tokens)
	case v.NotProved > 0:
		return fmt.Sprintf("proved for %d of %d tokens that no window held more than its limit; for %d, windows above a limit have a cause",
			v.Record.Tokens-v.NotProved, v.Record.Tokens, v.NotProved)
	case len(v.Interruptions) > 0:
		return "no recorded window held more than its limit, but the record has interruptions"
	}
	return fmt.Sprintf("proved: no window held more than its limit, of %d tokens", v.Record.Tokens)
}

func interruptionText(x interruptionView) string {
	text := x.Kind
	if x.Events > 0 {
		text = fmt.Sprintf("%d events are missing", x.Events)
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
