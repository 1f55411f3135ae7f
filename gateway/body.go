package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"opsgate/authn"
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
	fields   []field           // those that the operation knows
	unknown  []string          // names of others, in the order of the body; no more than an answer can report
	cut      bool              // not all of the body was read: a field that is not there may have been in the rest
	problems map[string]string // by known field or header
	err      error             // the body is not an object, so none of its fields is read
}

// A field is a field of a body, with its value as it was sent.
type field struct {
	name  string
	value []byte // nil where the body does not have it
}

// Body reads the request's body, which may hold the fields of its route and no others: a misspelt optional field must not silently
// become its default.
func (r *Request) Body() *Body {
	known := r.route.Fields
	b := &Body{header: r.http().Header, fields: make([]field, len(known))}
	for i, name := range known {
		b.fields[i].name = name
	}
	if !isJSON(b.header["Content-Type"]) {
		b.err = unsupportedMediaType()
		return b
	}
	if coding := contentCoding(b.header["Content-Encoding"]); coding != "" {
		b.err = unsupportedCoding(coding)
		return b
	}
	data, err := r.readBody()
	if err != nil {
		b.err = err
		return b
	}
	if err := b.readObject(data); err != nil {
		b.err = invalid(map[string]string{"body": err.Error()}).withCause(causeBody)
	}
	return b
}

// Err returns nil, or one problem that names every field that is wrong, as far as an answer has room for them.
func (b *Body) Err() error {
	if b.err != nil {
		return b.err
	}
	if len(b.problems)+len(b.unknown) == 0 {
		return nil
	}
	cause := causeBody
	if len(b.problems) == 1 && len(b.unknown) == 0 && b.problems[idempotencyKeyHeader] != "" {
		cause = causeKey
	}
	return invalid(b.problems, b.unknown...).withCause(cause)
}

// maxSpace is how many characters of white space a text may have around it before it is refused unread, however they are written.
const maxSpace = 1000

// Text returns a required text of 1 to most characters for people (see textProblem), without the white space around it.
func (b *Body) Text(name string, most int) string {
	literal, ok := b.value(name, '"', "must be a string")
	if !ok {
		return ""
	}
	const longestChar = len(`\ud83d\ude00`)
	if len(literal) > longestChar*(most+maxSpace) {
		b.fail(name, fmt.Sprintf("must have at most %d characters, with at most %d of white space around them", most, maxSpace))
		return ""
	}
	text, whole := textOf(unquoted(literal))
	text = strings.TrimSpace(text)
	if !whole {
		b.fail(name, "holds half of a surrogate pair")
	} else if problem := textProblem(text, most); problem != "" {
		b.fail(name, problem)
	}
	return text
}

// OptionalID returns a UUID in lower case, or nil where the field is absent or null.
func (b *Body) OptionalID(name string) *string {
	if b.absent(name) {
		return nil
	}
	const problem = "must be a UUID"
	text, ok := b.word(name, problem)
	if !ok {
		return nil
	}
	id, ok := authn.CanonicalUUID(text)
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
	i := 0
	for element := range elements(array) {
		if i == most {
			b.fail(name, problem)
			return nil
		}
		id, ok := shortTextOf(element)
		if ok {
			id, ok = authn.CanonicalUUID(id)
		}
		if !ok {
			b.fail(name, fmt.Sprintf("element %d must be a UUID", i))
			return nil
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		i++
	}
	return ids
}

// Bool returns a truth value, or the default where the field is absent. Null is refused: it must not come to mean the
// default by accident.
func (b *Body) Bool(name string, otherwise bool) bool {
	switch value := b.given(name); string(value) {
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

// requiredEnum returns the value that a required field's word stands for.
func requiredEnum[T any](b *Body, name string, words []word[T]) (value T) {
	problem := "must be " + oneOf(words)
	text, ok := b.word(name, problem)
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

// word returns the text of a field that must be there, and cannot be longer than a UUID.
func (b *Body) word(name, problem string) (string, bool) {
	literal, ok := b.value(name, '"', problem)
	if !ok {
		return "", false
	}
	text, ok := shortTextOf(literal)
	if !ok {
		b.fail(name, problem)
	}
	return text, ok
}

// shortTextOf returns the text of a value that is a string, unless it must be longer than a UUID: no closed set has a longer word.
func shortTextOf(literal []byte) (string, bool) {
	const longest = len(`""`) + 36*len(`\u0000`)
	if literal[0] != '"' || len(literal) > longest {
		return "", false
	}
	return textOf(unquoted(literal))
}

// value returns the value of a field that must be there and be of the kind that begins with the byte given.
func (b *Body) value(name string, first byte, problem string) ([]byte, bool) {
	if b.err != nil || b.problems[name] != "" {
		return nil, false
	}
	switch value := b.given(name); {
	case value == nil && b.cut:
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
	value := b.given(name)
	return value == nil || string(value) == "null"
}

// given returns the value of a field as it was sent, or nil where there is none.
func (b *Body) given(name string) []byte {
	for i := range b.fields {
		if b.fields[i].name == name {
			return b.fields[i].value
		}
	}
	return nil
}

// fail notes what is wrong with a field, where nothing is noted yet.
func (b *Body) fail(name, text string) {
	if b.problems[name] != "" {
		return
	}
	if b.problems == nil {
		b.problems = make(map[string]string)
	}
	b.problems[name] = text
}

// readBody reads all of the body, but not a byte more than the limit allows. The body has a time of its own, by which
// the deadline of the request moves: a client that sends slowly takes no time from the service.
func (r *Request) readBody() ([]byte, error) {
	limit := r.gateway.options.MaxBodyBytes
	if r.http().ContentLength > limit {
		return nil, tooLarge(limit)
	}
	// Deadlines fail where the connection has none, which is in tests without one.
	connection, began := http.NewResponseController(r.gin.Writer), time.Now()
	_ = connection.SetReadDeadline(began.Add(r.gateway.options.BodyTimeout))
	var data bytes.Buffer
	data.Grow(int(max(0, r.http().ContentLength)) + bytes.MinRead)
	_, err := data.ReadFrom(http.MaxBytesReader(r.gin.Writer, r.http().Body, limit))
	r.root.addBodyTime(time.Since(began))
	if _, exceeded := errors.AsType[*http.MaxBytesError](err); exceeded {
		return nil, tooLarge(limit)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, requestTimeout(err)
	case err != nil && r.clientGone():
		return nil, clientClosed(err)
	case err != nil:
		p := invalid(map[string]string{"body": "ended before it was complete"}).withCause(causeBody)
		p.err = err
		return nil, p
	}
	// net/http goes on reading, to notice a client that hangs up, and would take a deadline that passes for that.
	_ = connection.SetReadDeadline(time.Time{})
	return data.Bytes(), nil
}

// isJSON says whether the Content-Type is JSON; none at all is taken for it (decisions, "Requests"). Its parameters change nothing, so
// they are not read.
func isJSON(contentType []string) bool {
	if len(contentType) == 0 {
		return true
	}
	mediaType, _, _ := strings.Cut(contentType[0], ";")
	return len(contentType) == 1 && strings.ToLower(strings.TrimSpace(mediaType)) == jsonType
}

// contentCoding returns the first coding of a body that is not the body itself, or "".
func contentCoding(header []string) string {
	for _, line := range header {
		for coding := range strings.SplitSeq(line, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return coding
			}
		}
	}
	return ""
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
