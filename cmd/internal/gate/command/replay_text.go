package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"opsgate/cmd/internal/kit/duration"
	"opsgate/ratelimit/demand"
)

// writeReplay prints the changes in the first line, then the record, and then the results by limit and token.
func writeReplay(w io.Writer, v replayView) error {
	fmt.Fprintf(w, "%d of %d requests would be newly denied (%s), of %d tokens; %d would be newly admitted (%s)\n\n",
		v.NewlyDenied, v.Record.Requests, share(v.NewlyDenied, v.Record.Requests), v.NewlyDeniedTokens,
		v.NewlyAdmitted, share(v.NewlyAdmitted, v.Record.Requests))
	t := newTable(w)
	writeRecord(t, v)
	t.row()
	t.row("", "ADMITTED", "DENIED", "PART", "KEPT OUT", "LONGEST")
	for _, r := range []struct {
		name string
		demand.Denials
	}{{"before", v.Before}, {"after", v.After}} {
		t.row(r.name, number(r.Admitted), number(r.Denied), share(r.Denied, v.Record.Requests), timeText(r.Duration), timeText(r.Longest))
	}
	t.row()
	writeLimitResults(t, v.Limits)
	if len(v.Tokens) > 0 {
		t.row()
		writeTokenResults(t, v.Tokens)
	}
	return t.Flush()
}

func writeRecord(t table, v replayView) {
	r := v.Record
	writeRecorded(t, r.Total, r.Tokens, r.Summary)
	t.row("config", "version "+v.Version)
	for _, warning := range v.Warnings {
		t.row("warning", warning)
	}
}

func writeLimitResults(t table, limits []limitResult) {
	t.row("LIMIT", "REQUESTS", "DENIED BEFORE", "AFTER", "NEWLY", "SET AT")
	for _, l := range limits {
		name, requests := l.Key+" "+l.Name, "no longer there"
		if l.Shadow {
			name += " (shadow)"
		}
		if l.Requests > 0 {
			requests = fmt.Sprintf("%d per %s", l.Requests, secondsText(l.Per))
		}
		t.row(name, requests, number(l.Before), number(l.After), number(l.NewlyDenied), l.Origin)
	}
}

func writeTokenResults(t table, tokens []tokenResult) {
	t.row("TOKEN", "TEAM", "REQUESTS", "DENIED BEFORE", "AFTER", "NEWLY", "KEPT OUT", "LONGEST", "FIRST", "LIMITS")
	for _, k := range tokens {
		t.row(named(k.TokenID, k.TokenName), named(k.TeamID, k.TeamName), number(k.Requests),
			number(k.Before.Denied), number(k.After.Denied), number(k.NewlyDenied),
			timeText(k.After.Duration), timeText(k.After.Longest), k.First.Format(time.RFC3339), k.Key)
	}
}

// periodText returns a period with its length.
func periodText(from, to time.Time) string {
	from, to = from.Truncate(time.Second), to.Truncate(time.Second)
	return fmt.Sprintf("%s to %s (%s)", from.Format(time.RFC3339), to.Format(time.RFC3339), duration.Text(to.Sub(from)))
}

// writeRecorded describes the requests of a record.
func writeRecorded(t table, r demand.Total, tokens int, about demand.Summary) {
	t.row("record", periodText(r.From, r.To))
	t.row("of", fmt.Sprintf("%d requests of %d tokens, a sample of %s", r.Requests, tokens, sampleText(about)))
}

// sampleText returns the part of the tokens that is recorded.
func sampleText(about demand.Summary) string {
	if about.MinSample != about.MaxSample {
		return percentText(about.MinSample) + " to " + percentText(about.MaxSample)
	}
	return percentText(about.MaxSample)
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func percentText(part float64) string { return strconv.FormatFloat(part*100, 'g', 6, 64) + "%" }

// writeJSON prints a value as indented JSON.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
