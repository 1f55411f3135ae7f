package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/cmd/internal/kit/commandline"
)

// A column of a table: its title and its value.
type column[T any] struct {
	title string
	value func(T) any
}

// columnID is the title of the column that --output id prints; it is the first one.
const columnID = "ID"

// A call sends a request.
type call func(*apiclient.Client) (*http.Response, error)

// receive sends a request and returns the JSON of the answer.
func (p *program) receive(send call) (json.RawMessage, error) {
	s, err := p.connect(defaultMaxWait)
	if err != nil {
		return nil, err
	}
	return p.body(send(s.Client)) //nolint:bodyclose // body closes it
}

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
	if response.Header.Get("Idempotent-Replayed") == "true" {
		p.note(note{Text: "an earlier request with this idempotency key did it; nothing was done now"})
	}
	return text, nil
}

func (p *program) unexpected(text string) *problem {
	return &problem{Code: codeUnexpected, Text: text, asJSON: p.Output == asJSON}
}

// hasIDs returns a usage error if --output id cannot be served.
func hasIDs[T any](p *program, columns []column[T]) error {
	if p.Output == asID && columns[0].title != columnID {
		return commandline.UsageError{Err: errors.New("--output id: what this command prints has no id")}
	}
	return nil
}

// printList prints the answer to a request, an array.
func printList[T any](p *program, columns []column[T], send call) error {
	if err := hasIDs(p, columns); err != nil {
		return err
	}
	text, err := p.receive(send)
	if err != nil {
		return err
	}
	return printRows(p, columns, text)
}

// printRows prints an array.
func printRows[T any](p *program, columns []column[T], text json.RawMessage) error {
	if p.Output == asJSON {
		return p.printJSON(text)
	}
	var rows []T
	if err := json.Unmarshal(text, &rows); err != nil {
		return p.unexpected("the answer is not what opsctl expects: " + err.Error())
	}
	out := new(bytes.Buffer)
	if p.Output == asID {
		for _, row := range rows {
			fmt.Fprintln(out, cell(columns[0].value(row)))
		}
	} else {
		writeTable(out, columns, rows)
	}
	return p.print(out)
}

// printOne prints the answer to a request, an object. more may add to the table; nil adds nothing.
func printOne[T any](p *program, columns []column[T], more func(io.Writer, T), send call) error {
	if err := hasIDs(p, columns); err != nil {
		return err
	}
	text, err := p.receive(send)
	if err != nil {
		return err
	}
	if p.Output == asJSON {
		return p.printJSON(text)
	}
	var object T
	if err := json.Unmarshal(text, &object); err != nil {
		return p.unexpected("the answer is not what opsctl expects: " + err.Error())
	}
	out := new(bytes.Buffer)
	if p.Output == asID {
		fmt.Fprintln(out, cell(columns[0].value(object)))
		return p.print(out)
	}
	writeObject(out, columns, object)
	if more != nil {
		more(out, object)
	}
	return p.print(out)
}

// printJSON prints JSON as it is, but for characters that a terminal would not print: those are escaped.
func (p *program) printJSON(text json.RawMessage) error {
	return p.print(bytes.NewBufferString(harmlessJSON(string(bytes.TrimSpace(text))) + "\n"))
}

func (p *program) print(text *bytes.Buffer) error {
	if _, err := text.WriteTo(p.Out); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// writeTable writes aligned columns with a heading.
func writeTable[T any](w io.Writer, columns []column[T], rows []T) {
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.title
	}
	fmt.Fprintln(lines, strings.Join(cells, "\t"))
	for _, row := range rows {
		for i, c := range columns {
			cells[i] = short(cell(c.value(row)))
		}
		fmt.Fprintln(lines, strings.Join(cells, "\t"))
	}
	_ = lines.Flush() // w is a buffer
}

// writeObject writes a line for each column.
func writeObject[T any](w io.Writer, columns []column[T], object T) {
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range columns {
		fmt.Fprintf(lines, "%s\t%s\n", c.title, cell(c.value(object)))
	}
	_ = lines.Flush()
}
