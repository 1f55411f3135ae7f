package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"opsgate/cmd/internal/ctl/apiclient"
)

// input is what an operation takes, by the names in its schema.
type input = map[string]any

// call calls an operation, and returns its answer like transport.Do.
func (s *session) call(ctx context.Context, o apiclient.Operation, in input) (*http.Response, error) {
	request, err := s.request(ctx, o, in)
	if err != nil {
		return nil, err
	}
	return s.transport.Do(request)
}

// request returns the request of an operation. The arguments match its schema.
func (s *session) request(ctx context.Context, o apiclient.Operation, in input) (*http.Request, error) {
	path, query, body := o.Path, url.Values{}, input{}
	for name, value := range in {
		switch {
		case strings.Contains(path, "{"+name+"}"):
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(argument(value)))
		case slices.Contains(o.Query, name):
			query.Set(name, argument(value))
		case slices.Contains(o.Body, name):
			body[name] = value
		}
	}
	target := s.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	content := io.Reader(http.NoBody)
	if o.Writes() {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, o.Method, target, content)
	if err != nil {
		return nil, err
	}
	if o.Writes() {
		request.Header.Set("Content-Type", "application/json")
		if key, given := in["idempotencyKey"].(string); given {
			request.Header.Set(headerIdempotencyKey, key)
		}
	}
	return request, nil
}

// argument returns an argument as the text of a parameter: 1000000 and not 1e+06.
func argument(value any) string {
	if number, ok := value.(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
