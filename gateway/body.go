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

// A Body decodes the JSON object of a request field by field and collects all problems, so that one response reports them all.
type Body struct {
	reader    jsonReader
	header    http.Header
	fields    []field           // of the route
	unknown   []string          // names of other fields in the body, at most maxDetails
	truncated bool              // parsing ended at a limit, so a missing field may be in the rest of the body
	problems  map[string]string // by field or header
	err       error             // the body is not an object
}

// A field is a field of a body, with its encoded value.
type field struct {
	name  string
	value []byte // nil if the body does not have it
}

// Body reads the body of the request. Unknown fields are a problem: otherwise a misspelled optional field would count as absent.
func (r *Request) Body() *Body {
	if r.body == nil {
		r.body = new(Body)
	}
	b := r.body
	b.reset()
	b.header = r.http().Header
	for _, name := range r.route.Fields {
		b.fields = append(b.fields, field{name: name})
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

// reset drops the data of a request, and keeps what is allocated for each.
func (b *Body) reset() {
	b.reader.reset(nil)
	clear(b.fields)
	b.header, b.fields, b.unknown, b.truncated, b.problems, b.err = nil, b.fields[:0], nil, false, nil, nil
}

// Err returns nil, or one problem with all invalid fields, up to the limit of details. It ends the decoding: a request that waits for its
// service or its client does not hold the body.
func (b *Body) Err() error {
	defer b.reset()
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

// maxSpace is the maximal number of white space characters around a text. A string that must have more is rejected without decoding it.
const maxSpace = 1000

// Text returns a required text of 1 to limit characters (see textProblem), without the white space around it.
func (b *Body) Text(name string, limit int) string {
	literal, ok := b.value(name, '"', "must be a string")
	if !ok {
		return ""
	}
	if len(literal) > longestEscape*(limit+maxSpace) {
		const problem = "must have at most %d characters (Unicode code points), with at most %d of white space around them"
		b.fail(name, fmt.Sprintf(problem, limit, maxSpace))
		return ""
	}
	text, valid := textOf(literal)
	text = strings.TrimSpace(text)
	if !valid {
		b.fail(name, "holds half of a surrogate pair")
	} else if problem := textProblem(text, limit); problem != "" {
		b.fail(name, problem)
	}
	return text
}

// OptionalID returns a UUID in lower case, or nil if the field is absent or null.
func (b *Body) OptionalID(name string) *string {
	if b.absent(name) {
		return nil
	}
	const problem = "must be a UUID"
	text, ok := b.shortText(name, problem)
	if !ok {
		return nil
	}
	id, ok := authn.CanonicalUUID(text)
	if !ok {
		b.fail(name, problem)
	}
	return &id
}

// IDs returns at most limit UUIDs in lower case, without duplicates. It returns none if the field is absent or null.
func (b *Body) IDs(name string, limit int) []string {
	if b.absent(name) {
		return nil
	}
	problem := fmt.Sprintf("must be an array of at most %d UUIDs", limit)
	array, ok := b.value(name, '[', problem)
	if !ok {
		return nil
	}
	var ids []string
	i := 0
	for element := range b.reader.elements(array) {
		if i == limit {
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

// Bool returns a boolean, or def if the field is absent. Null is a problem (docs/integrate/contract.md, "Bodies").
func (b *Body) Bool(name string, def bool) bool {
	switch value := b.raw(name); string(value) {
	case "":
		return def
	case "true":
		return true
	case "false":
		return false
	}
	b.fail(name, "must be true or false")
	return def
}

// requiredEnum returns the value of a required field with one of the given names.
func requiredEnum[T any](b *Body, name string, values []enumValue[T]) (value T) {
	problem := "must be " + oneOf(values)
	text, ok := b.shortText(name, problem)
	if !ok {
		return value
	}
	i := slices.IndexFunc(values, func(v enumValue[T]) bool { return v.name == text })
	if i < 0 {
		b.fail(name, problem)
		return value
	}
	return values[i].value
}

// IdempotencyKey returns the request's Idempotency-Key, or "".
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

// shortText returns the text of a required field that has at most the length of a UUID.
func (b *Body) shortText(name, problem string) (string, bool) {
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

// shortTextOf returns the text of an encoded string with at most the length of a UUID. No enum value is longer.
func shortTextOf(literal []byte) (string, bool) {
	const longest = len(`""`) + 36*len(`\u0000`)
	if literal[0] != '"' || len(literal) > longest {
		return "", false
	}
	return textOf(literal)
}

// value returns the encoded value of a required field whose JSON type is identified by its first byte.
func (b *Body) value(name string, first byte, problem string) ([]byte, bool) {
	if b.err != nil || b.problems[name] != "" {
		return nil, false
	}
	switch value := b.raw(name); {
	case value == nil && b.truncated:
	case value == nil:
		b.fail(name, "is required")
	case value[0] != first:
		b.fail(name, problem)
	default:
		return value, true
	}
	return nil, false
}

// absent returns whether an optional field is absent or null.
func (b *Body) absent(name string) bool {
	value := b.raw(name)
	return value == nil || string(value) == "null"
}

// raw returns the encoded value of a field, or nil if the field is absent.
func (b *Body) raw(name string) []byte {
	for i := range b.fields {
		if b.fields[i].name == name {
			return b.fields[i].value
		}
	}
	return nil
}

// fail records a problem of a field, unless the field already has one.
func (b *Body) fail(name, text string) {
	if b.problems[name] != "" {
		return
	}
	if b.problems == nil {
		b.problems = make(map[string]string)
	}
	b.problems[name] = text
}

// readBody reads the body, up to the limit of its size. The body has its own timeout. The time spent on reading it extends the deadline of
// the request.
func (r *Request) readBody() ([]byte, error) {
	limit := r.gateway.options.MaxBodyBytes
	if r.http().ContentLength > limit {
		return nil, tooLarge(limit)
	}
	// The error is ignored: only tests and dry runs have a writer without deadlines.
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
		return nil, invalid(map[string]string{"body": "ended before it was complete"}).withCause(causeBody).withError(err)
	}
	// net/http continues to read, to detect a disconnect. An expired deadline would end that read and look like a disconnect.
	_ = connection.SetReadDeadline(time.Time{})
	return data.Bytes(), nil
}

// isJSON returns whether the Content-Type is JSON. A missing one counts as JSON (docs/integrate/contract.md, "Bodies"). Parameters are
// ignored.
func isJSON(contentType []string) bool {
	if len(contentType) == 0 {
		return true
	}
	mediaType, _, _ := strings.Cut(contentType[0], ";")
	return len(contentType) == 1 && strings.ToLower(strings.TrimSpace(mediaType)) == jsonType
}

// contentCoding returns the first coding in Content-Encoding other than identity, or "".
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

// visibleASCII returns whether s has 1 to limit characters, all of them visible ASCII.
func visibleASCII(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
