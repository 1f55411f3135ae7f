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

	"opsgate/cmd/internal/kit/commandline"
)

type rawCall struct {
	write

	Method string `arg:"" help:"The method, for example GET."`
	Path   string `arg:"" help:"The path and the query, for example /v1/incidents?limit=10."`
	Data   string `short:"d" placeholder:"JSON" help:"The body; - reads standard input."`
}

// Run sends the request and prints the body of the answer, whatever --output is. What is not JSON is harmless on a terminal, and otherwise
// exact.
func (c rawCall) Run(ctx context.Context, p *program) error {
	s, err := p.connect(defaultMaxWait)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(c.Path, "/") {
		return commandline.UsageError{Err: errors.New("the path must begin with /")}
	}
	data, err := p.readText(c.Data)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, strings.ToUpper(c.Method), s.base+c.Path, strings.NewReader(data))
	if err != nil {
		return commandline.UsageError{Err: fmt.Errorf("%s %s: %w", c.Method, c.Path, err)}
	}
	if data != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.IdempotencyKey != nil {
		request.Header.Set(headerIdempotencyKey, *c.IdempotencyKey)
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
	if json.Valid(text) {
		return p.printJSON(text)
	}
	if p.Terminal {
		text = []byte(harmless(string(text), '\n', '\t'))
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	return p.print(bytes.NewBuffer(text))
}
