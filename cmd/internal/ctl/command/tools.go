package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"opsgate/cmd/internal/ctl/apiclient"
)

// maxResult bounds the size of a result in bytes, so that it does not fill the context of a model.
const maxResult = 64 << 10

// Codes of problems of calls of tools. Nothing was sent.
const (
	codeSettings  = "invalid_settings"
	codeArguments = "invalid_arguments"
)

// agentAPI calls the API for tools.
type agentAPI struct {
	program *program
	client  *http.Client
}

// connect returns a session for a call. Over HTTP it has the token and the address of the caller.
// Else it reads the settings anew: another token in the file is used without a restart.
func (a *agentAPI) connect(caller *mcp.RequestExtra) (s *session, err error) {
	if caller != nil {
		s, err = a.program.connectAs(bearer(caller.Header), new(pacer))
	} else {
		s, err = a.program.connect()
	}
	if err != nil {
		return nil, &problem{Code: codeSettings, Text: err.Error()}
	}
	s.transport.client = a.client
	if caller != nil {
		s.transport.caller = caller.Header.Get(headerForwardedFor)
	}
	return s, nil
}

// scopes returns the scopes of the token. An API that does not respond does not delay the list of
// tools for long.
func (a *agentAPI) scopes(ctx context.Context, caller *mcp.RequestExtra) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s, err := a.connect(caller)
	if err != nil {
		return nil, err
	}
	s.transport.maxWait = 0
	text, err := a.program.body(s.call(ctx, operation("v1Me"), nil)) //nolint:bodyclose // body closes it
	var identity struct{ Scopes []string }
	return identity.Scopes, errors.Join(err, json.Unmarshal(text, &identity))
}

// tool calls an operation for an agent.
type tool struct {
	operation     apiclient.Operation
	input, output *jsonschema.Schema
	arguments     map[string]*jsonschema.Resolved
	results       *jsonschema.Resolved
}

// newTool returns the tool for an operation.
func newTool(o apiclient.Operation) (*tool, error) {
	t := &tool{operation: o, arguments: map[string]*jsonschema.Resolved{}}
	ofFailure, err := jsonschema.For[failure](nil)
	if err := errors.Join(err, json.Unmarshal([]byte(o.Input), &t.input),
		json.Unmarshal([]byte(o.Output), &t.output)); err != nil {
		return nil, err
	}
	if p := t.input.Properties["notifySubscribers"]; p != nil { // an agent must not send mail by default
		p.Default, t.input.Required = nil, append(t.input.Required, "notifySubscribers")
	}
	if p := t.input.Properties["cursor"]; p != nil {
		p.Description = "The `nextCursor` of the previous page; absent for the first page."
	}
	t.output.AnyOf, t.output.Required = []*jsonschema.Schema{{Required: t.output.Required}, ofFailure}, nil
	for name, p := range t.input.Properties {
		if t.arguments[name], err = p.Resolve(nil); err != nil {
			return nil, err
		}
	}
	t.results, err = t.output.Resolve(nil)
	return t, err
}

// check returns what is wrong with the arguments by name, with the bounds of their schemas.
func (t *tool) check(in input) map[string]any {
	wrong := map[string]any{}
	for name, value := range in {
		if p := t.arguments[name]; p == nil {
			wrong[name] = "is not an argument of this tool; its arguments: " + fmt.Sprint(slices.Sorted(maps.Keys(t.arguments)))
		} else if p.Validate(value) != nil {
			wrong[name] = fmt.Sprintf("%s does not match: %s", short(jsonLine(value), maxCell), bounds(p.Schema()))
		}
	}
	for _, name := range t.input.Required {
		if _, given := in[name]; !given {
			wrong[name] = "is required: " + bounds(t.input.Properties[name])
		}
	}
	return wrong
}

// bounds describes the values that a schema allows, by its keywords: maximum 100, minimum 1, type
// integer.
func bounds(schema any) string {
	keywords := object{}
	_ = json.Unmarshal(encode(schema), &keywords) // it is an object
	var list []string
	for _, name := range slices.Sorted(maps.Keys(keywords)) {
		switch name {
		case "description", "examples", "default":
		case "items":
			list = append(list, "each item: ("+bounds(keywords[name])+")")
		default:
			list = append(list, name+" "+argument(keywords[name]))
		}
	}
	return strings.Join(list, ", ")
}

// failure is the result of a call that failed.
type failure struct {
	*problem

	Action string  `json:"action"`
	Waited float64 `json:"waitedSeconds,omitempty"`
}

// call calls a tool. The result matches its output schema.
func (a *agentAPI) call(ctx context.Context, t *tool, request *mcp.CallToolRequest) *mcp.CallToolResult {
	result, err := a.answer(ctx, t, request)
	if p, ok := errors.AsType[*problem](err); ok {
		if text, has := p.Details[headerIdempotencyKey]; has {
			delete(p.Details, headerIdempotencyKey)
			p.Details["idempotencyKey"] = text
		}
		p.Status = 0 // answers have another field of this name
		result = failure{p, p.action(), p.waited.Seconds()}
	}
	text := jsonLine(result)
	return &mcp.CallToolResult{
		IsError: err != nil, Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: json.RawMessage(text),
	}
}

// answer returns the answer to the operation of a tool, for an agent. An error is a *problem.
func (a *agentAPI) answer(ctx context.Context, t *tool, request *mcp.CallToolRequest) (any, error) {
	in, arguments := input{}, request.Params.Arguments
	if len(arguments) > 0 && json.Unmarshal(arguments, &in) != nil {
		return nil, &problem{Code: codeArguments, Text: "the arguments are not an object"}
	}
	if wrong := t.check(in); len(wrong) > 0 {
		return nil, &problem{Code: codeArguments, Text: "the arguments are invalid; nothing was sent", Details: wrong}
	}
	s, err := a.connect(request.Extra)
	if err != nil {
		return nil, err
	}
	response, err := s.call(ctx, t.operation, in) //nolint:bodyclose // body closes it
	if err != nil {
		return nil, err
	}
	text, err := a.program.body(response, nil)
	result := bounded(text)
	if isCursorIgnored(response) {
		result["cursorIgnored"] = encode(true)
	}
	if isReplayed(response) {
		result["replayed"] = encode(true)
	}
	var value any
	if err := errors.Join(err, json.Unmarshal(encode(result), &value), t.results.Validate(value)); err != nil {
		return nil, s.transport.final(response.Request, &problem{Code: codeUnexpected, Text: err.Error()})
	}
	return result, nil
}

// action returns what an agent can do about a problem.
func (p *problem) action() string {
	if p.Key != "" {
		return "It may have been executed. Call the tool again with the same arguments and this idempotencyKey."
	}
	const correct = "Correct the arguments that details names, and call the tool again."
	return cmp.Or(map[string]string{
		codeSettings: "Ask the user to correct the environment or the flags of this server. A token file is read " +
			"for each call.",
		codeArguments:      correct,
		"validation_error": correct,
		"unauthorized": "Ask the user for a valid API token: this one is unknown, revoked or expired. It is in the " +
			"configuration of the client or of this server. A token file is read for each call.",
		"forbidden":    "Ask the user for a token with the scope, or for the plan, that details names.",
		"not_found":    "Get a valid ID from a tool that lists, and call the tool again.",
		"rate_limited": "Nothing was executed. Call the tool again after retryAfterSeconds.",
		codeNoConnection: "Call the tool again in a minute. If it fails again, ask the user whether the API is at the " +
			"address of this server.",
	}[p.Code], "Call the tool again in a minute. If it fails again, report this to the user.")
}

// truncation describes a list of a result that was shortened.
type truncation struct {
	Field string `json:"field"`
	Shown int    `json:"shown"`
	Of    int    `json:"of"`
}

// bounded returns an answer as an object of at most about maxResult bytes: an array becomes the
// field items, and the longest array of a larger answer is shortened to its newest part, which
// truncated describes.
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

// isOldestFirst reports whether a list of an answer begins with its oldest item. Others begin with
// the newest, or have no order in time.
func isOldestFirst(field string) bool { return field == "points" || field == "updates" }

// encode returns a value, which can be encoded, as JSON.
func encode(value any) json.RawMessage { return json.RawMessage(jsonLine(value)) }
