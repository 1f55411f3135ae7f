package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	jsonType             = "application/json"
	idempotencyKeyHeader = "Idempotency-Key"
	maxIdempotencyKeyLen = 255
)

// A Body decodes the JSON object of a request field by field and gathers what is wrong with it, so that a client learns of
// all its mistakes at once.
type Body struct {
	header   http.Header
	fields   object
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
		b.err = invalid(map[string]string{"body": err.Error()}).because(causeBody)
		return b
	}
	for _, f := range b.fields {
		if !slices.Contains(known, f.name) {
			b.problems[f.name] = "is not a field of this request"
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
		cause := causeBody
		if len(b.problems) == 1 && b.problems[idempotencyKeyHeader] != "" {
			cause = causeKey
		}
		return invalid(b.problems).because(cause)
	}
	return nil
}

// Text returns a required text of 1 to most characters, without the white space around it. Line breaks and tabs are the
// only control characters that it may hold.
func (b *Body) Text(name string, most int) string {
	text, ok := b.text(name, "must be a string")
	if !ok {
		return ""
	}
	text = strings.TrimSpace(text)
	n := utf8.RuneCountInString(text)
	switch {
	case replacedSurrogates(text, b.fields.get(name)):
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
	text, ok := b.text(name, problem)
	if !ok {
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
	array, ok := b.value(name, '[', problem)
	if !ok {
		return nil
	}
	var ids []string
	element, rest := nextValue(array[1:])
	for i := 0; element != nil; i++ {
		if i == most {
			b.fail(name, problem)
			return nil
		}
		id, ok := "", element[0] == '"'
		if ok {
			id, ok = canonicalUUID(textOf(element))
		}
		if !ok {
			b.fail(name, fmt.Sprintf("element %d must be a UUID", i))
			return nil
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		element, rest = nextValue(rest)
	}
	return ids
}

// Bool returns a truth value, or the default where the field is absent. Null is refused: it must not come to mean the
// default by accident.
func (b *Body) Bool(name string, otherwise bool) bool {
	switch value := b.fields.get(name); string(value) {
	case "":
		return otherwise
	case "true":
		return true
	case "false":
		return false
	}
	b.fail(name, "must be true or false")
	return otherwise
}

// requiredWord returns the value that a required field's word stands for.
func requiredWord[T any](b *Body, name string, words []word[T]) (value T) {
	problem := "must be " + oneOf(words)
	text, ok := b.text(name, problem)
	if !ok {
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

// text returns the text of a field that must be there.
func (b *Body) text(name, problem string) (string, bool) {
	value, ok := b.value(name, '"', problem)
	if !ok {
		return "", false
	}
	return textOf(value), true
}

// value returns the value of a field that must be there and be of the kind that begins with the byte given.
func (b *Body) value(name string, first byte, problem string) ([]byte, bool) {
	if b.err != nil || b.problems[name] != "" {
		return nil, false
	}
	switch value := b.fields.get(name); {
	case value == nil:
		b.fail(name, "is required")
	case value[0] != first:
		b.fail(name, problem)
	default:
		return value, true
	}
	return nil, false
}

// absent says whether a field is not there, or null, which is the same where the field is optional.
func (b *Body) absent(name string) bool {
	value := b.fields.get(name)
	return value == nil || string(value) == "null"
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
	var data bytes.Buffer
	data.Grow(int(max(0, r.http().ContentLength)) + bytes.MinRead)
	_, err := data.ReadFrom(http.MaxBytesReader(r.gin.Writer, r.http().Body, limit))
	if _, exceeded := errors.AsType[*http.MaxBytesError](err); exceeded {
		return nil, tooLarge(limit)
	}
	switch {
	case err != nil && r.clientGone():
		return nil, clientClosed(err)
	case err != nil:
		p := invalid(map[string]string{"body": "ended before it was complete"}).because(causeBody)
		p.err = err
		return nil, p
	}
	return data.Bytes(), nil
}

// isJSON says whether the Content-Type is JSON; none at all is taken for it (decisions, "Requests").
func isJSON(contentType []string) bool {
	if len(contentType) == 0 || len(contentType) == 1 && contentType[0] == jsonType {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType[0])
	return len(contentType) == 1 && err == nil && kind == jsonType
}

// replacedSurrogates says whether decoding put U+FFFD where the document had half of a surrogate pair: the text would not be
// what the client sent.
func replacedSurrogates(text string, raw []byte) bool {
	const replacement = "\uFFFD"
	n := strings.Count(text, replacement)
	if n == 0 {
		return false
	}
	raw = bytes.ReplaceAll(raw, []byte(`\\`), nil) // an escaped backslash before ufffd makes no character of it
	sent := bytes.Count(raw, []byte(replacement)) + bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
	return n > sent
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
