package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/itchyny/gojq"
)

// expression is the value of --jq; without the flag its code is nil. It cannot read files, the
// environment or standard input.
type expression struct{ code *gojq.Code }

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *expression) UnmarshalText(text []byte) error {
	query, err := gojq.Parse(string(text))
	if err == nil {
		e.code, err = gojq.Compile(query)
	}
	return err
}

// printResults prints what the expression returns for JSON, as `jq -cr` does. A text is exact, but
// harmless on a terminal.
func (p *program) printResults(ctx context.Context, text json.RawMessage) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return p.unexpected("--jq needs an answer in JSON: " + err.Error())
	}
	results := p.JQ.code.RunWithContext(ctx, value)
	for result, more := results.Next(); more; result, more = results.Next() {
		line, isText := result.(string)
		err, _ := result.(error)
		if !isText && err == nil {
			encoded, failed := gojq.Marshal(result)
			line, err = harmlessJSON(string(encoded)), failed
		}
		halt, halted := errors.AsType[*gojq.HaltError](err)
		switch {
		case halted && halt.Value() == nil:
			return nil
		case ctx.Err() != nil:
			return &problem{Code: codeInterrupted, Text: "interrupted in the expression of --jq", asJSON: p.Output == asJSON}
		case err != nil:
			return &problem{Code: codeExpression, Text: "the request succeeded, but --jq failed: " + err.Error(),
				asJSON: p.Output == asJSON}
		case isText && p.Terminal:
			line = harmless(line, '\n', '\t')
		}
		if err := p.print(bytes.NewBufferString(line + "\n")); err != nil {
			return err
		}
	}
	return nil
}
