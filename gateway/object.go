package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Bounds of the values of a body, arrays and objects included; the fields of an operation have at most 106 values, in one array. skipValue
// keeps the levels that are open in the bits of one word, below a bit that marks the outermost.
const (
	maxNesting = 63
	maxValues  = 1000
)

// What is wrong with a document that is no JSON object, or has more in it than is read.
var (
	errNotJSON = errors.New("is not JSON")
	errTooDeep = fmt.Errorf("has a value that is nested deeper than %d levels", maxNesting)
	errTooMany = fmt.Errorf("has more than %d values", maxValues)
)

// readObject reads the JSON object in data and keeps the values of the fields that the operation knows, and of the others as many
// names as an answer can report. The error says what data is instead of an object. The cost is linear in the size of data whatever
// its shape: past a bound nothing more is read, and nothing is allocated for a name that is not kept.
func (b *Body) readObject(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("is not valid UTF-8")
	}
	at := skipSpace(data, 0)
	if at == len(data) {
		return errors.New("is empty; it must be a JSON object")
	}
	isObject, left := data[at] == '{', maxValues
	var err error
	if isObject {
		at, err = b.readFields(data, at, &left)
	} else {
		at, err = skipValue(data, at, &left)
	}
	if err == nil {
		at = skipSpace(data, at)
	}
	switch {
	case errors.Is(err, errTooMany) && isObject:
		b.cut = true
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

// readFields reads the fields of the object that begins at a byte, and returns where it ends.
func (b *Body) readFields(data []byte, at int, left *int) (int, error) {
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
		valueEnd, err := skipValue(data, value, left)
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

// addField notes a field of the body: its value, nil where not all of it was read, or what is wrong with its name.
func (b *Body) addField(literal, value []byte) {
	switch f := b.known(literal); {
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

// known returns the field that a name, as a literal, stands for, or nil where the operation does not have it.
func (b *Body) known(literal []byte) *field {
	const escape = len(`\u0000`) // no shorter escape stands for a letter
	var room [32]byte            // on the stack, for the names of all fields
	name := unquoted(literal)
	if n := len(name); escape <= n && n <= escape*len(room) && bytes.IndexByte(name, '\\') >= 0 {
		name, _ = appendText(room[:0], name)
	}
	for i := range b.fields {
		if f := &b.fields[i]; f.name == string(name) {
			return f
		}
	}
	return nil
}
