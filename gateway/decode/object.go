package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of the values in a body, including arrays and objects. A valid body has at most 106
// values.
const (
	maxNesting = 63
	maxValues  = 1000
)

// jsonSpace is the white space of JSON.
const jsonSpace = " \t\r\n"

// Errors of a document that is not a JSON object, or exceeds a limit.
var (
	errNotJSON = errors.New("is not JSON")
	errTooDeep = fmt.Errorf("has a value that is nested deeper than %d levels", maxNesting)
	errTooMany = fmt.Errorf("has more than %d values", maxValues)
)

// readObject parses the JSON object in data. It keeps the values of the route's fields, and the
// names of up to maxDetails other fields. Its error describes why data is not an object. The cost
// is linear in the size of data: parsing ends at a limit, and other names are not allocated.
func (b *Body) readObject(data []byte) error {
	if err := checkEncoding(data); err != nil {
		return err
	}
	start := bytes.TrimLeft(data, jsonSpace)
	if len(start) == 0 {
		return errors.New("is empty; it must be a JSON object")
	}
	isObject := start[0] == '{'
	b.reader.reset(data)
	var err error
	if isObject {
		err = b.readFields()
	} else {
		_, err = b.reader.value()
	}
	if errors.Is(err, errTooMany) && isObject {
		b.truncated = true
		b.fail("body", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if rest := bytes.TrimLeft(b.reader.decoder.UnreadBuffer(), jsonSpace); len(rest) > 0 {
		return fmt.Errorf("has more after its JSON value, at byte %d", len(data)-len(rest)+1)
	}
	if !isObject {
		return errors.New("must be a JSON object")
	}
	return nil
}

// checkEncoding returns an error for data that is not UTF-8 or has a byte order mark, which editors
// and shells of Windows add and do not show. JSON has none (RFC 8259, section 8.1).
func checkEncoding(data []byte) error {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return errors.New("begins with a byte order mark (BOM); send UTF-8 without it")
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return errors.New("begins with a byte order mark (BOM) of UTF-16; send UTF-8 without it")
	case !utf8.Valid(data):
		return errors.New("is not valid UTF-8")
	}
	return nil
}

// readFields parses the fields of the object at the beginning of the data.
func (b *Body) readFields() error {
	r := &b.reader
	_, err := r.decoder.ReadToken() // {
	for err == nil && r.decoder.PeekKind() == '"' {
		var name, value []byte
		if name, err = r.decoder.ReadValue(); err != nil {
			break
		}
		value, err = r.value()
		if err == nil || errors.Is(err, errTooMany) {
			b.addField(name, value)
		}
		if err != nil {
			return err
		}
	}
	if err == nil {
		_, err = r.decoder.ReadToken() // } unless there is a mistake
	}
	return r.describe(err)
}

// addField records the value of a field, or a problem with the field's name. The value is nil if
// parsing reached the limit of values within it.
func (b *Body) addField(literal, value []byte) {
	switch f := b.field(literal); {
	case f != nil && value == nil:
		b.fail(f.name, fmt.Sprintf("goes beyond the first %d values of the body", maxValues))
	case f != nil && f.value == nil:
		f.value = value
	case f != nil:
		b.fail(f.name, "is given twice")
	case len(b.unknown) < maxDetails:
		b.unknown = append(b.unknown, b.detailName(literal))
	}
}

// field returns the route's field with a name, given as a literal, or nil if the route does not
// have it.
func (b *Body) field(literal []byte) *field {
	var buf [maxFieldLiteral]byte // on the stack
	name := literal[1 : len(literal)-1]
	if len(literal) <= maxFieldLiteral && bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(buf[:0], literal)
	}
	for i := range b.fields {
		if f := &b.fields[i]; f.name == string(name) {
			return f
		}
	}
	return nil
}

// maxFieldLiteral is longer than any literal of a route's field: the names have fewer than 32
// letters, each of which may be escaped.
const maxFieldLiteral = len(`""`) + 32*len(`\u0000`)

// longestEscape is the length of the longest literal form of a character.
const longestEscape = len(`\ud83d\ude00`)

// detailName returns the first characters of a name, without a token, for a detail. It does not
// decode the rest of the literal.
func (b *Body) detailName(literal []byte) string {
	var buf [len(`"`) + maxDetailName*longestEscape]byte
	// AppendUnquote returns an error because the literal is incomplete.
	text, _ := jsontext.AppendUnquote(buf[:0], literal[:min(len(literal), len(buf))])
	name := FirstChars(string(text), maxDetailName)
	if before, _, isToken := strings.Cut(name, b.LiveTokenPrefix); isToken && b.LiveTokenPrefix != "" {
		return before + b.LiveTokenPrefix + "…"
	}
	return name
}

// textOf returns the text of a string literal, and reports whether it is valid: an unpaired
// surrogate becomes U+FFFD.
func textOf(literal []byte) (text string, valid bool) {
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(literal[1 : len(literal)-1]), true
	}
	decoded, err := jsontext.AppendUnquote(nil, literal)
	return string(decoded), err == nil
}

// A jsonReader reads values within the limits of a body. It is reused, because a Decoder allocates.
type jsonReader struct {
	decoder jsontext.Decoder
	// input is a buffer over data. The Decoder reads a Buffer in place, so its values are slices of
	// data and remain valid after its next read.
	input     bytes.Buffer
	data      []byte
	remaining int // values that may still be read
}

func (r *jsonReader) reset(data []byte) {
	r.data, r.remaining, r.input = data, maxValues, *bytes.NewBuffer(data)
	// addField finds duplicate names, and checkEncoding invalid UTF-8. Without AllowInvalidUTF8,
	// the Decoder would also report an escaped unpaired surrogate, as wrong syntax.
	r.decoder.Reset(&r.input, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// value reads a value.
func (r *jsonReader) value() ([]byte, error) {
	d := &r.decoder
	if kind := d.PeekKind(); kind == '{' || kind == '[' {
		return r.nested()
	}
	value, err := d.ReadValue()
	if err != nil {
		return nil, r.describe(err)
	}
	if r.remaining--; r.remaining < 0 {
		return nil, errTooMany
	}
	return value, nil
}

// nested reads an object or an array.
func (r *jsonReader) nested() ([]byte, error) {
	d := &r.decoder
	outer, start := d.StackDepth(), int64(-1)
	for {
		token, err := d.ReadToken()
		if err != nil {
			return nil, r.describe(err)
		}
		if start < 0 {
			start = d.InputOffset() - 1 // the token is { or [
		}
		depth := d.StackDepth()
		switch token.Kind() {
		case '}', ']':
			if depth == outer {
				return r.data[start:d.InputOffset()], nil
			}
			continue
		case '"':
			container, n := d.StackIndex(depth)
			if isName := container == '{' && n%2 == 1; isName { // n counts names and values, including this one
				continue
			}
		}
		if r.remaining--; r.remaining < 0 {
			return nil, errTooMany
		}
		if depth-outer > maxNesting {
			return nil, errTooDeep
		}
	}
}

// elements yields the elements of an array that value has read.
func (r *jsonReader) elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		r.reset(array)
		_, err := r.decoder.ReadToken() // [
		for err == nil && r.decoder.PeekKind() != ']' {
			var element []byte
			if element, err = r.decoder.ReadValue(); err == nil && !yield(element) {
				return
			}
		}
	}
}

// describe returns an error of the Decoder for the client, with the offset of the mistake.
func (r *jsonReader) describe(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: the mistake is at byte %d", errNotJSON, r.mistake(err)+1)
}

// mistake returns the offset of the first byte that is wrong. The offset in the Decoder's error may
// be an earlier one.
func (r *jsonReader) mistake(err error) int {
	next, isName := r.nextToken()
	if isName && byteAt(r.data, next) != '"' {
		return next // a name is missing, for example after a trailing comma, whose offset the Decoder reports
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return len(r.data) // it ends too early, for example in a number, whose beginning the Decoder reports
	}
	at := max(int(syntax.ByteOffset), next)
	// For an invalid escape in a string, the Decoder reports the backslash: skip the valid part.
	if byteAt(r.data, next) == '"' && byteAt(r.data, at) == '\\' {
		if at++; byteAt(r.data, at) == 'u' {
			for at++; isHexDigit(byteAt(r.data, at)); at++ {
			}
		}
	}
	return at
}

// nextToken returns the offset at which the next token must begin, and reports whether it must be a
// name.
func (r *jsonReader) nextToken() (at int, isName bool) {
	kind, n := r.decoder.StackIndex(r.decoder.StackDepth())
	isName = kind == '{' && n%2 == 0 // n counts the names and values before it
	at = skipSpace(r.data, int(r.decoder.InputOffset()))
	c := byteAt(r.data, at)
	comma := c == ',' && n > 0 && (isName || kind == '[') // before each element or name but the first
	colon := c == ':' && kind == '{' && !isName           // before each value of an object
	if comma || colon {
		at = skipSpace(r.data, at+1)
	}
	return at, isName
}

func skipSpace(data []byte, at int) int {
	return len(data) - len(bytes.TrimLeft(data[at:], jsonSpace))
}

// byteAt returns a byte of data, or 0 past its end, which no JSON contains.
func byteAt(data []byte, at int) byte {
	if at < len(data) {
		return data[at]
	}
	return 0
}
