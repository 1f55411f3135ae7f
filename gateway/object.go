package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Limits of the values in a body, including arrays and objects. A valid body has at most 106 values.
// skipValue uses one bit of a uint64 for each open level, and one more bit, hence 63.
const (
	maxNesting = 63
	maxValues  = 1000
)

// Errors of a document that is not a JSON object, or exceeds a limit.
var (
	errNotJSON = errors.New("is not JSON")
	errTooDeep = fmt.Errorf("has a value that is nested deeper than %d levels", maxNesting)
	errTooMany = fmt.Errorf("has more than %d values", maxValues)
)

// readObject parses the JSON object in data. It keeps the values of the route's fields, and the names of up to maxDetails other fields. The
// error describes data that is not an object. The cost is linear in the size of data: parsing ends at a limit, and names that are not kept
// are not allocated.
func (b *Body) readObject(data []byte) error {
	if err := checkEncoding(data); err != nil {
		return err
	}
	at := skipSpace(data, 0)
	if at == len(data) {
		return errors.New("is empty; it must be a JSON object")
	}
	isObject, remaining := data[at] == '{', maxValues
	var err error
	if isObject {
		at, err = b.readFields(data, at, &remaining)
	} else {
		at, err = skipValue(data, at, &remaining)
	}
	if err == nil {
		at = skipSpace(data, at)
	}
	switch {
	case errors.Is(err, errTooMany) && isObject:
		b.truncated = true
		b.fail("body", err.Error())
		return nil
	case errors.Is(err, errNotJSON):
		return fmt.Errorf("%w: the mistake is at byte %d", err, at+1)
	case err != nil:
		return err
	case at < len(data):
		return fmt.Errorf("has more after its JSON value, at byte %d", at+1)
	case !isObject:
		return errors.New("must be a JSON object")
	}
	return nil
}

// checkEncoding returns an error for data that is not UTF-8 or has a byte order mark, which editors and shells of Windows add and do not
// show. JSON has none (RFC 8259, section 8.1).
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

// readFields parses the fields of the object at an offset, and returns the offset after it.
func (b *Body) readFields(data []byte, at int, remaining *int) (int, error) {
	at = skipSpace(data, at+1)
	if byteAt(data, at) == '}' {
		return at + 1, nil
	}
	for {
		start := at
		end, ok := skipString(data, at)
		if !ok {
			return end, errNotJSON
		}
		if at = skipSpace(data, end); byteAt(data, at) != ':' {
			return at, errNotJSON
		}
		value := skipSpace(data, at+1)
		valueEnd, err := skipValue(data, value, remaining)
		if err != nil {
			b.addField(data[start:end], nil)
			return valueEnd, err
		}
		b.addField(data[start:end], data[value:valueEnd])
		at = skipSpace(data, valueEnd)
		switch byteAt(data, at) {
		case ',':
			at = skipSpace(data, at+1)
		case '}':
			return at + 1, nil
		default:
			return at, errNotJSON
		}
	}
}

// addField records the value of a field, or a problem with its name. The value is nil if it was not read completely.
func (b *Body) addField(literal, value []byte) {
	switch f := b.field(literal); {
	case f != nil && value == nil:
		b.fail(f.name, fmt.Sprintf("goes beyond the first %d values of the body", maxValues))
	case f != nil && f.value == nil:
		f.value = value
	case f != nil:
		b.fail(f.name, "is given twice")
	case len(b.unknown) < maxDetails:
		name, _ := textOf(prefixOf(unquoted(literal), maxDetailName))
		b.unknown = append(b.unknown, name)
	}
}

// field returns the route's field with a name, given as a literal, or nil if the route does not have it.
func (b *Body) field(literal []byte) *field {
	const escape = len(`\u0000`) // every escape of a letter has this length
	var buf [32]byte             // on the stack; the names of all fields fit
	name := unquoted(literal)
	if n := len(name); escape <= n && n <= escape*len(buf) && bytes.IndexByte(name, '\\') >= 0 {
		name, _ = appendText(buf[:0], name)
	}
	for i := range b.fields {
		if f := &b.fields[i]; f.name == string(name) {
			return f
		}
	}
	return nil
}
