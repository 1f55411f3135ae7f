package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	idempotencyKeyHeader = "Idempotency-Key"
	maxIdempotencyKeyLen = 255
)

// A Body decodes the JSON object of a request field by field and gathers what is wrong with it, so that a client learns of
// all its mistakes at once.
type Body struct {
	header   http.Header
	fields   map[string]json.RawMessage
	problems map[string]string
	err      error // the body is no object at all: nothing can be said of its fields
}

// Body reads the request's body, which may hold the fields named and no others: a misspelt optional field must not silently
// become its default.
func (r *Request) Body(known ...string) *Body {
	b := &Body{header: r.http().Header, problems: make(map[string]string)}
	if !isJSON(r.http().Header["Content-Type"]) {
		b.err = unsupportedMediaType()
		return b
	}
	data, err := r.readBody()
	if err != nil {
		b.err = err
		return b
	}
	if b.fields, err = parseObject(data, b.problems); err != nil {
		b.err = invalid(map[string]string{"body": err.Error()})
		return b
	}
	for name := range b.fields {
		if !slices.Contains(known, name) {
			b.problems[name] = "is not a field of this request"
		}
	}
	return b
}

// Err returns nil, or one problem that names every field in trouble.
func (b *Body) Err() error {
	if b.err != nil {
		return b.err
	}
	if len(b.problems) > 0 {
		return invalid(b.problems)
	}
	return nil
}

// Text returns a required text of 1 to most characters, without the white space around it. Line breaks and tabs are the
// only control characters that it may hold.
func (b *Body) Text(name string, most int) string {
	var text string
	if !b.decode(name, "must be a string", &text) {
		return ""
	}
	text = strings.TrimSpace(text)
	n := utf8.RuneCountInString(text)
	switch {
	case replacedSurrogates(text, b.fields[name]):
		b.fail(name, "holds half of a surrogate pair")
	case n < 1 || n > most:
		b.fail(name, fmt.Sprintf("must have 1 to %d characters that are not white space", most))
	case strings.ContainsFunc(text, forbiddenControl):
		b.fail(name, "must not hold control characters other than line breaks and tabs")
	}
	return text
}

// OptionalID returns a UUID in lower case, or nil where the field is absent or null.
func (b *Body) OptionalID(name string) *string {
	if b.absent(name) {
		return nil
	}
	const problem = "must be a UUID"
	var text string
	if !b.decode(name, problem, &text) {
		return nil
	}
	id, ok := canonicalUUID(text)
	if !ok {
		b.fail(name, problem)
	}
	return &id
}

// IDs returns up to most UUIDs in lower case, each once; none where the field is absent or null.
func (b *Body) IDs(name string, most int) []string {
	if b.absent(name) {
		return nil
	}
	problem := fmt.Sprintf("must be an array of at most %d UUIDs", most)
	var texts []string
	if !b.decode(name, problem, &texts) {
		return nil
	}
	if len(texts) > most {
		b.fail(name, problem)
		return nil
	}
	ids := make([]string, 0, len(texts))
	for i, text := range texts {
		id, ok := canonicalUUID(text)
		if !ok {
			b.fail(name, fmt.Sprintf("element %d must be a UUID", i))
			return nil
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Bool returns a truth value, or the default where the field is absent. Null is refused: it must not come to mean the
// default by accident.
func (b *Body) Bool(name string, otherwise bool) bool {
	if _, given := b.fields[name]; !given {
		return otherwise
	}
	value := otherwise
	b.decode(name, "must be true or false", &value)
	return value
}

// requiredWord returns the value that a required field's word stands for.
func requiredWord[T any](b *Body, name string, words []word[T]) (value T) {
	problem := "must be " + oneOf(words)
	var text string
	if !b.decode(name, problem, &text) {
		return value
	}
	i := slices.IndexFunc(words, func(w word[T]) bool { return w.name == text })
	if i < 0 {
		b.fail(name, problem)
		return value
	}
	return words[i].value
}

// IdempotencyKey returns the request's Idempotency-Key, empty where there is none.
func (b *Body) IdempotencyKey() string {
	keys := b.header[idempotencyKeyHeader]
	if len(keys) == 0 {
		return ""
	}
	if len(keys) > 1 {
		b.fail(idempotencyKeyHeader, "must be given once")
		return ""
	}
	if !visibleASCII(keys[0], maxIdempotencyKeyLen) {
		b.fail(idempotencyKeyHeader, fmt.Sprintf("must have 1 to %d visible ASCII characters", maxIdempotencyKeyLen))
		return ""
	}
	return keys[0]
}

// decode reads a field that must be there and not null into value.
func (b *Body) decode(name, problem string, value any) bool {
	if b.err != nil || b.problems[name] != "" {
		return false
	}
	raw, given := b.fields[name]
	if !given {
		b.fail(name, "is required")
		return false
	}
	// Unmarshal takes null for the zero value, also inside of an array.
	if isNull(raw) || hasNullElement(raw) || json.Unmarshal(raw, value) != nil {
		b.fail(name, problem)
		return false
	}
	return true
}

func (b *Body) absent(name string) bool {
	raw, given := b.fields[name]
	return !given || isNull(raw)
}

func (b *Body) fail(name, text string) {
	if b.problems[name] == "" {
		b.problems[name] = text
	}
}

// readBody reads all of the body, but not a byte more than the limit allows.
func (r *Request) readBody() ([]byte, error) {
	limit := r.gateway.maxBodyBytes
	if r.http().ContentLength > limit {
		return nil, tooLarge(limit)
	}
	data, err := io.ReadAll(http.MaxBytesReader(r.gin.Writer, r.http().Body, limit))
	var exceeded *http.MaxBytesError
	switch {
	case errors.As(err, &exceeded):
		return nil, tooLarge(limit)
	case err != nil && r.clientGone():
		return nil, clientClosed(err)
	case err != nil:
		p := invalid(map[string]string{"body": "ended before it was complete"})
		p.cause = err
		return nil, p
	}
	return data, nil
}

// isJSON says whether the Content-Type is JSON; none at all is taken for it (decisions, "Requests").
func isJSON(contentType []string) bool {
	if len(contentType) == 0 {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType[0])
	return len(contentType) == 1 && err == nil && kind == "application/json"
}

// parseObject splits a JSON object into its fields. Repeated keys go to problems; the error says what the body is instead of
// an object.
func parseObject(data []byte, problems map[string]string) (map[string]json.RawMessage, error) {
	switch trimmed := bytes.TrimLeft(data, " \t\r\n"); {
	case len(trimmed) == 0:
		return nil, errors.New("is empty; it must be a JSON object")
	case !utf8.Valid(data):
		return nil, errors.New("is not valid UTF-8")
	case trimmed[0] != '{' && json.Valid(data):
		return nil, errors.New("must be a JSON object")
	case !json.Valid(data):
		return nil, notJSON(data)
	}
	// The document is valid, so no call below can fail.
	decoder := json.NewDecoder(bytes.NewReader(data))
	_, _ = decoder.Token()
	fields := make(map[string]json.RawMessage)
	for decoder.More() {
		key, _ := decoder.Token()
		name, _ := key.(string)
		var value json.RawMessage
		_ = decoder.Decode(&value)
		if _, twice := fields[name]; twice {
			problems[name] = "is given twice"
		}
		fields[name] = value
	}
	return fields, nil
}

// notJSON says where a document stops being JSON.
func notJSON(data []byte) error {
	var value json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	if decoder.Decode(&value) == nil {
		return fmt.Errorf("has more after its JSON value, at byte %d", decoder.InputOffset()+1)
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, &value); errors.As(err, &syntax) {
		return fmt.Errorf("is not JSON: the mistake is at byte %d", syntax.Offset)
	}
	return errors.New("is not JSON")
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// hasNullElement says whether raw is an array with a null in it.
func hasNullElement(raw json.RawMessage) bool {
	if len(raw) == 0 || raw[0] != '[' {
		return false
	}
	var elements []json.RawMessage
	return json.Unmarshal(raw, &elements) == nil && slices.ContainsFunc(elements, isNull)
}

// replacedSurrogates says whether decoding put U+FFFD where the document had half of a surrogate pair: the text would not be
// what the client sent.
func replacedSurrogates(text string, raw json.RawMessage) bool {
	const replacement = "\uFFFD"
	sent := bytes.Count(raw, []byte(replacement)) + bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
	return strings.Count(text, replacement) > sent
}

func forbiddenControl(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
}

// visibleASCII says whether s has 1 to most characters, each visible: no space, no control character.
func visibleASCII(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
