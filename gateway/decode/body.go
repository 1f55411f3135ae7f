package decode

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"opsgate/internal/uuid"
)

// IdempotencyKeyHeader is the header of [Body.IdempotencyKey], and the name of its problem.
const IdempotencyKeyHeader = "Idempotency-Key"

const maxIdempotencyKeyLen = 255

// A Body decodes the JSON object of a request. Fields that the route does not have are problems:
// otherwise a misspelled optional field would count as absent. The zero Body is empty. A Body can
// be used for many requests, one after the other.
type Body struct {
	LiveTokenPrefix string // prefix of live tokens; a problem repeats a name only up to its end
	Dropped         func() // called by Finish when the body is not needed any more; nil for nothing

	reader    jsonReader
	header    http.Header
	fields    []field           // of the route
	unknown   []string          // names of other fields in the body, at most maxDetails
	truncated bool              // parsing ended at a limit, so a missing field may be in the rest of the body
	problems  map[string]string // by field or header
	err       error             // of Reject or Parse; Finish returns it in place of the problems
}

// A field is a field of a body, with its encoded value.
type field struct {
	name  string
	value []byte // nil if the body does not have it
}

// Reset begins the decoding of another body. fields are the fields of its route.
func (b *Body) Reset(header http.Header, fields []string) {
	b.reader.reset(nil)
	clear(b.fields)
	b.header, b.fields, b.unknown, b.truncated, b.problems, b.err = header, b.fields[:0], nil, false, nil, nil
	for _, name := range fields {
		b.fields = append(b.fields, field{name: name})
	}
}

// Reject makes Finish return an error, instead of the problems of fields.
func (b *Body) Reject(err error) { b.err = err }

// Parse reads the JSON object. The Body keeps data until Finish is called.
func (b *Body) Parse(data []byte) {
	if err := b.readObject(data); err != nil {
		b.err = &Error{Part: PartBody, Details: Details(map[string]string{"body": err.Error()})}
	}
}

// Finish returns nil, the error of Reject, or an *Error with all problems. It drops the body, which
// is not needed while the request waits for its service or its client. Nothing can be decoded after
// it.
func (b *Body) Finish() error {
	err := b.err
	if err == nil && len(b.problems)+len(b.unknown) > 0 {
		part := PartBody
		if len(b.problems) == 1 && len(b.unknown) == 0 && b.problems[IdempotencyKeyHeader] != "" {
			part = PartIdempotencyKey
		}
		err = &Error{Part: part, Details: Details(b.problems, b.unknown...)}
	}
	b.Reset(nil, nil)
	if b.Dropped != nil {
		b.Dropped()
	}
	return err
}

// maxSpace is the number of white space characters that may surround a text in addition to its
// limit. Text rejects a literal without decoding if it is longer than limit+maxSpace escaped
// characters.
const maxSpace = 1000

// Text returns a required text of 1 to limit characters (see textProblem), without the white space
// around it.
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
		b.fail(name, "contains an unpaired surrogate")
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
	id, ok := uuid.Canonical(text)
	if !ok {
		b.fail(name, problem)
	}
	return &id
}

// IDs returns at most limit UUIDs in lower case, without duplicates. It returns none if the field
// is absent or null.
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
			id, ok = uuid.Canonical(id)
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

// Bool returns a boolean, or def if the field is absent. Null is a problem
// (docs/integrate/contract.md, "Bodies").
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

// OneOf returns the index of a required text in values, or -1.
func (b *Body) OneOf(name string, values []string) int {
	problem := oneOfProblem(values)
	text, ok := b.shortText(name, problem)
	if !ok {
		return -1
	}
	i := slices.Index(values, text)
	if i < 0 {
		b.fail(name, problem)
	}
	return i
}

// IdempotencyKey returns the request's Idempotency-Key, or "".
func (b *Body) IdempotencyKey() string {
	keys := b.header[IdempotencyKeyHeader]
	if len(keys) == 0 {
		return ""
	}
	if len(keys) > 1 {
		b.fail(IdempotencyKeyHeader, "must be given once")
		return ""
	}
	if !VisibleASCII(keys[0], maxIdempotencyKeyLen) {
		b.fail(IdempotencyKeyHeader, fmt.Sprintf("must have 1 to %d visible ASCII characters", maxIdempotencyKeyLen))
		return ""
	}
	return keys[0]
}

// shortText returns the text of a required field that is a UUID or an enum value; see shortTextOf.
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

// shortTextOf returns the text of an encoded string. It rejects a literal without decoding if it is
// longer than 36 escaped characters: a UUID has 36 characters, and no enum value has more. The
// caller rejects other texts that are too long.
func shortTextOf(literal []byte) (string, bool) {
	const longest = len(`""`) + 36*len(`\u0000`)
	if literal[0] != '"' || len(literal) > longest {
		return "", false
	}
	return textOf(literal)
}

// value returns the encoded value of a required field whose JSON type is identified by its first
// byte.
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

// absent reports whether an optional field is absent or null.
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
