package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"opsgate/cmd/internal/ctl/apiclient"
)

// maxResult bounds the size of a result in bytes, so that it does not fill the context of a model.
const maxResult = 64 << 10

// rateLimited is the result of a call that a rate limit refused.
type rateLimited struct {
	RateLimited bool   `json:"rateLimited"`
	RetryAfter  int    `json:"retryAfterSeconds"`
	Text        string `json:"error"`
}

// callTool calls an operation with the arguments of a tool, and returns the result and whether the call failed. The result is an object.
func (s *session) callTool(ctx context.Context, o apiclient.Operation, in input) (result any, failed bool) {
	response, err := s.call(ctx, o, in) //nolint:bodyclose // body closes it
	if p, ok := errors.AsType[*problem](err); ok {
		if p.Status == http.StatusTooManyRequests {
			return rateLimited{RateLimited: true, RetryAfter: p.RetryAfter, Text: p.Text}, false
		}
		return p, true
	}
	text, err := s.transport.program.body(response, err)
	if err != nil {
		return &problem{Code: codeUnexpected, Text: err.Error()}, true
	}
	object := bounded(text)
	if isCursorIgnored(response) {
		object["cursorIgnored"] = encode(true)
	}
	return object, false
}

// truncation describes a list of a result that was shortened.
type truncation struct {
	Field string `json:"field"`
	Shown int    `json:"shown"`
	Of    int    `json:"of"`
}

// bounded returns an answer as an object of at most about maxResult bytes: an array becomes the field items, and the longest array of a
// larger answer is shortened to its newest part, which truncated describes.
func bounded(text json.RawMessage) map[string]json.RawMessage {
	object := map[string]json.RawMessage{}
	if json.Unmarshal(text, &object) != nil {
		object = map[string]json.RawMessage{"items": text}
	}
	size, longest := 0, ""
	for name, value := range object {
		size += len(value)
		if bytes.HasPrefix(bytes.TrimSpace(value), []byte("[")) && len(value) > len(object[longest]) {
			longest = name
		}
	}
	var items []json.RawMessage
	if size <= maxResult || json.Unmarshal(object[longest], &items) != nil {
		return object
	}
	room := maxResult - (size - len(object[longest]))
	if isOldestFirst(longest) {
		slices.Reverse(items)
	}
	shown := 0
	for shown < len(items) && room >= len(items[shown])+1 {
		room -= len(items[shown]) + 1
		shown++
	}
	kept := items[:shown]
	if isOldestFirst(longest) {
		slices.Reverse(kept)
	}
	object[longest] = encode(kept)
	object["truncated"] = encode(truncation{Field: longest, Shown: shown, Of: len(items)})
	return object
}

// isOldestFirst reports whether a list of an answer begins with its oldest item. Others begin with the newest, or have no order in time.
func isOldestFirst(field string) bool { return field == "points" || field == "updates" }

// encode returns a value, which can be encoded, as JSON.
func encode(value any) json.RawMessage { return json.RawMessage(jsonLine(value)) }
