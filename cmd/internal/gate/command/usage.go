package command

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/kit/commandline"
	"opsgate/ratelimit/demand"
)

type usage struct {
	recordFlags

	By, Since, Until string
	CSV              bool
}

func usageCommand(e Environment) *cobra.Command {
	u := &usage{}
	c := &cobra.Command{
		Use: "usage", Short: "Count recorded requests, denials and refunds by team, token or operation",
		Long: `Count recorded requests, denials and refunds by team, token or operation.

The numbers are of the recorded tokens alone and never scaled: a sample has all requests of some tokens, and none of the others.`,
		RunE: func(c *cobra.Command, _ []string) error { return u.run(c.Context(), e, time.Now()) },
	}
	flags := c.Flags()
	u.addTo(c)
	flags.BoolVar(&u.JSON, "json", false, "print JSON")
	flags.StringVar(&u.By, "by", "team", "count by `KEY`: team, token or operation")
	flags.StringVar(&u.Since, "since", "", "count requests since `TIME`: 2026-01-31, 2026-01-31T12:00:00Z, or a duration until now: 24h")
	flags.StringVar(&u.Until, "until", "", "count requests before `TIME`")
	flags.BoolVar(&u.CSV, "csv", false, "print CSV")
	c.MarkFlagsMutuallyExclusive("json", "csv")
	return c
}

// usageKeys returns the key of a request for each value of --by.
func usageKeys() map[string]func(*demand.Event) demand.UsageKey {
	return map[string]func(*demand.Event) demand.UsageKey{
		"team":      func(e *demand.Event) demand.UsageKey { return demand.UsageKey{TeamID: e.TeamID} },
		"token":     func(e *demand.Event) demand.UsageKey { return demand.UsageKey{TeamID: e.TeamID, TokenID: e.TokenID} },
		"operation": func(e *demand.Event) demand.UsageKey { return demand.UsageKey{Operation: e.Operation} },
	}
}

func (c *usage) options(now time.Time) (o demand.UsageOptions, err error) {
	if o.By = usageKeys()[c.By]; o.By == nil {
		return o, commandline.UsageError{Err: fmt.Errorf("--by must be team, token or operation, not %q", c.By)}
	}
	for _, bound := range []struct {
		flag, text string
		at         *time.Time
	}{{"--since", c.Since, &o.Since}, {"--until", c.Until, &o.Until}} {
		if *bound.at, err = timeOf(bound.text, now); err != nil {
			return o, commandline.UsageError{Err: fmt.Errorf("%s: %w", bound.flag, err)}
		}
	}
	return o, nil
}

// timeOf returns a time, a day at 00:00 UTC, or the time a duration ago; the zero time for "".
func timeOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a time like 2026-01-31T12:00:00Z, a day like 2026-01-31 or a duration like 24h, not %q", text)
}

// run prints the usage. With --csv, warnings are on standard error.
func (c *usage) run(ctx context.Context, e Environment, now time.Time) error {
	o, err := c.options(now)
	if err != nil {
		return err
	}
	var records []demand.Period
	report, about, err := readRecords(c.Demand, func(r *demand.Record) (report *demand.UsageReport, err error) {
		report, err = demand.Usage(r.Events(), o)
		records = r.Periods()
		return report, err
	})
	if err != nil {
		return err
	}
	if report.Requests == 0 {
		return errors.New("the record has no requests in this time")
	}
	view := usageView{report, about, usageWarnings(report.Total, about, records, o, now), make([]usageLine, len(report.Rows))}
	for i, row := range report.Rows {
		view.Rows[i].UsageRow = row
	}
	rows := namedRows(view.Rows, func(l *usageLine) namedRow { return namedRow{l.TokenID, l.TeamID, &l.tokenNames} })
	if err := c.addNames(ctx, e, rows); err != nil {
		return err
	}
	switch {
	case c.JSON:
		return writeJSON(e.Out, view)
	case c.CSV:
		for _, warning := range view.Warnings {
			fmt.Fprintln(e.Err, "warning:", warning)
		}
		return writeUsageCSV(e.Out, view, c.Admin != "")
	}
	return writeUsage(e.Out, view)
}

// A usageView is the JSON of a usage report.
type usageView struct {
	*demand.UsageReport
	demand.Summary

	Warnings []string    `json:"warnings"`
	Rows     []usageLine `json:"rows"`
}

type usageLine struct {
	demand.UsageRow
	tokenNames
}

// usageWarnings returns what the usage lacks: tokens outside the sample, and requests that no record has.
func usageWarnings(total demand.Total, about demand.Summary, records []demand.Period, o demand.UsageOptions, now time.Time) []string {
	warnings := append([]string{}, countedTexts(countedText{about.Dropped, "events are missing in the record"})...) // [] in JSON
	if about.MinSample < 1 {
		warnings = append(warnings, fmt.Sprintf("a sample of %s of the tokens is recorded: requests of the others are not counted",
			sampleText(about)))
	}
	audited := demand.AuditReport{Total: total, Periods: records}
	if _, _, ok := audited.Covered(); !ok {
		warnings = append(warnings, "there is no time in which all records have requests: it is not known whether further ones are missing")
	}
	from, to := total.From, total.To
	if !o.Since.IsZero() {
		from = o.Since
	}
	if !o.Until.IsZero() && o.Until.Before(now) {
		to = o.Until
	}
	gaps, _ := audited.Gaps()
	return append(warnings, missingTexts(records, gaps, from, to)...)
}

// cells returns the line as the table and CSV have it.
func (l usageLine) cells() []string {
	var denials []string
	for _, limit := range slices.Sorted(maps.Keys(l.DeniedBy)) {
		denials = append(denials, limit+"="+number(l.DeniedBy[limit]))
	}
	return []string{
		named(l.TeamID, l.TeamName), named(l.TokenID, l.TokenName), l.Operation,
		number(l.Requests), number(l.Admitted), number(l.Refunded), number(l.Denied), strings.Join(denials, " "),
	}
}

func writeUsage(w io.Writer, v usageView) error {
	t := newTable(w)
	t.row("record", periodText(v.From, v.To))
	t.row("sample", sampleText(v.Summary)+" of the tokens, not scaled")
	for _, warning := range v.Warnings {
		t.row("warning", warning)
	}
	t.row()
	t.row("TEAM", "TOKEN", "OPERATION", "REQUESTS", "ADMITTED", "REFUNDED", "DENIED", "BY LIMIT")
	for _, line := range v.Rows {
		cells := line.cells()
		for i := range cells {
			cells[i] = cmp.Or(cells[i], "-")
		}
		t.row(cells...)
	}
	return t.Flush()
}

// writeUsageCSV writes a line for each row. Names have columns of their own, if a gateway was asked for them.
func writeUsageCSV(w io.Writer, v usageView, withNames bool) error {
	rows := [][]string{{"team_id", "token_id", "operation", "requests", "admitted", "refunded", "denied", "denied_by", "sample"}}
	for _, line := range v.Rows {
		rows = append(rows, append(usageLine{UsageRow: line.UsageRow}.cells(), percentText(v.MinSample)))
		if withNames {
			rows[len(rows)-1] = append(rows[len(rows)-1], plainCell(line.TeamName), plainCell(line.TokenName))
		}
	}
	if withNames {
		rows[0] = append(rows[0], "team_name", "token_name")
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// plainCell returns a name as a cell that spreadsheets do not read as a formula.
func plainCell(name string) string {
	if strings.IndexAny(name, "=+-@\t\r") == 0 {
		return "'" + name
	}
	return name
}
