package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"opsgate/internal/commandline"
)

func newRawCall(p *program) *cobra.Command {
	var data string
	var k key
	command := &cobra.Command{
		Use:   "api METHOD PATH",
		Short: "Call any path of the API and print the answer as it is",
		RunE: func(c *cobra.Command, arguments []string) error {
			return p.callRaw(c.Context(), arguments[0], arguments[1], data, k)
		},
	}
	command.Flags().StringVarP(&data, "data", "d", "", "the body, as `JSON`; - reads standard input")
	k.addFlag(command)
	return command
}

// callRaw sends a request and prints the body of the answer, whatever --output is. What is not JSON
// is harmless on a terminal, and exact otherwise.
func (p *program) callRaw(ctx context.Context, method, path, data string, k key) error {
	s, err := p.connect()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(path, "/") {
		return commandline.UsageError{Err: errors.New("the argument PATH must begin with /")}
	}
	data, err = p.readText(data)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), s.base+path, strings.NewReader(data))
	if err != nil {
		return commandline.UsageError{Err: fmt.Errorf("%s %s: %w", method, path, err)}
	}
	if data != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if k.text != "" {
		request.Header.Set(headerIdempotencyKey, k.text)
	}
	response, err := s.transport.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if p.JQ.code != nil || json.Valid(text) {
		return p.printJSON(ctx, text)
	}
	if p.Terminal {
		text = []byte(harmless(string(text), '\n', '\t'))
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	return p.print(bytes.NewBuffer(text))
}
