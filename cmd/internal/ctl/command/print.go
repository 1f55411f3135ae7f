package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/internal/commandline"
)

// body returns the JSON of an answer.
func (p *program) body(response *http.Response, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, p.unexpected("the answer is not JSON: is this the URL of the API?")
	}
	if isReplayed(response) {
		p.note(note{Text: "an earlier request with this idempotency key did it; nothing was done now"})
	}
	return text, nil
}

// isReplayed reports whether an answer is that of an earlier request with the same idempotency key.
func isReplayed(response *http.Response) bool {
	return response.Header.Get("Idempotent-Replayed") == "true"
}

func (p *program) unexpected(text string) *problem {
	return &problem{Code: codeUnexpected, Text: text, asJSON: p.Output == asJSON}
}

// requireIDs returns a usage error if --output id cannot be served.
func (p *program) requireIDs(answer apiclient.Object) error {
	if p.Output == asID && !slices.ContainsFunc(answer.Fields, func(f apiclient.Field) bool { return f.Name == fieldID }) {
		return commandline.UsageError{Err: errors.New("--output id: what this command prints has no id")}
	}
	return nil
}

// fieldID is the field that --output id prints.
const fieldID = "id"

// object is a JSON object of an answer.
type object = map[string]any

// printAnswer prints the answer of an operation: an object, or an array of them.
func (p *program) printAnswer(ctx context.Context, o apiclient.Operation, text json.RawMessage) error {
	if p.Output == asJSON || p.JQ.code != nil {
		return p.printJSON(ctx, text)
	}
	rows := make([]object, 1)
	to := any(&rows[0])
	if o.IsList {
		to = &rows
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(to); err != nil {
		return p.unexpected("the answer is not what opsctl expects: " + err.Error())
	}
	out := new(bytes.Buffer)
	switch {
	case p.Output == asID:
		for _, row := range rows {
			fmt.Fprintln(out, cell(row[fieldID]))
		}
	case o.IsList:
		p.writeTable(out, o.Answer, rows)
	default:
		p.writeObject(out, o.Answer, rows[0])
	}
	return p.print(out)
}

// printJSON prints the results of --jq, or without it JSON as it is, but for characters that a
// terminal would not print: those are escaped.
func (p *program) printJSON(ctx context.Context, text json.RawMessage) error {
	if p.JQ.code != nil {
		return p.printResults(ctx, text)
	}
	return p.print(bytes.NewBufferString(harmlessJSON(string(bytes.TrimSpace(text))) + "\n"))
}

func (p *program) print(text *bytes.Buffer) error {
	if _, err := text.WriteTo(p.Out); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// writeTable writes aligned columns with a heading, as many as fit the terminal.
func (p *program) writeTable(w io.Writer, of apiclient.Object, rows []object) {
	table := make([][]string, len(rows)+1)
	for _, f := range of.ColumnFields() {
		table[0] = append(table[0], title(f))
		for i, row := range rows {
			table[i+1] = append(table[i+1], short(fieldCell(f, row), maxCell))
		}
	}
	if p.Width > 0 {
		if left := fit(table, p.Width); len(left) > 0 {
			p.note(note{Text: "columns that do not fit the terminal: " + strings.Join(left, ", ") +
				"; --output json prints all"})
		}
	}
	lines := tabwriter.NewWriter(w, 0, 0, columnGap, ' ', 0)
	for _, cells := range table {
		fmt.Fprintln(lines, strings.Join(cells, "\t"))
	}
	_ = lines.Flush() // w is a buffer
}

// writeObject writes a line for each field, and below them the lists of objects.
func (p *program) writeObject(w io.Writer, of apiclient.Object, row object) {
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range of.Fields {
		if f.Items == nil {
			fmt.Fprintf(lines, "%s\t%s\n", title(f), fieldCell(f, row))
		}
	}
	_ = lines.Flush()
	for _, f := range of.Fields {
		if f.Items == nil {
			continue
		}
		list, _ := row[f.Name].([]any)
		rows := make([]object, len(list))
		for i := range list {
			rows[i], _ = list[i].(object)
		}
		if len(f.Items.Texts()) > 0 {
			writeBlocks(w, *f.Items, rows)
			continue
		}
		fmt.Fprintln(w)
		p.writeTable(w, *f.Items, rows)
	}
}

// writeBlocks writes the columns of each object in a line, and below it in full the texts that are
// no columns.
func writeBlocks(w io.Writer, of apiclient.Object, rows []object) {
	for _, row := range rows {
		var cells []string
		for _, f := range of.ColumnFields() {
			cells = append(cells, fieldCell(f, row))
		}
		fmt.Fprintf(w, "\n%s\n", strings.Join(cells, "  "))
		for _, f := range of.Texts() {
			text, _ := row[f.Name].(string)
			for line := range strings.Lines(text) {
				fmt.Fprintln(w, "  "+harmless(strings.TrimRight(line, "\r\n")))
			}
		}
	}
}

// title returns the heading of a field: LAST SEEN for the time lastSeenAt.
func title(f apiclient.Field) string {
	text := strings.TrimPrefix(words(f.Name, " "), "is ")
	if f.IsTime {
		text = strings.TrimSuffix(text, " at")
	}
	return strings.ToUpper(text)
}

// fieldCell returns the field of an object as text in a line.
func fieldCell(f apiclient.Field, row object) string {
	if text, isText := row[f.Name].(string); isText && f.IsTime {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at.UTC().Format(time.RFC3339)
		}
	}
	return cell(row[f.Name])
}
