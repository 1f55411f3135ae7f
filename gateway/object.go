package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// An object is a JSON object of a request's body: its fields in their order, each with its value as it was sent. A body is looked
// through twice, by encoding/json to see that it is JSON, and then by the functions below, which rely on that; decoding it
// into values by reflection would cost as much as the call of the service.
type object []field

type field struct {
	name  string
	value []byte
}

// get returns the value of a field, nil where there is none.
func (o object) get(name string) []byte {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// parseObject splits a document into the fields of its object. Repeated names go to problems; the error says what the document
// is instead of an object.
func parseObject(data []byte, problems map[string]string) (object, error) {
	data = bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(data) == 0:
		return nil, errors.New("is empty; it must be a JSON object")
	case !utf8.Valid(data):
		return nil, errors.New("is not valid UTF-8")
	case !json.Valid(data):
		return nil, notJSON(data)
	case data[0] != '{':
		return nil, errors.New("must be a JSON object")
	}
	o := make(object, 0, 8)
	for rest := data[1:]; ; {
		var name, value []byte
		if name, rest = nextValue(rest); name == nil {
			return o, nil
		}
		value, rest = nextValue(rest)
		f := field{textOf(name), value}
		if o.get(f.name) != nil {
			problems[f.name] = "is given twice"
			continue
		}
		o = append(o, f)
	}
}

// notJSON says where a document stops being JSON.
func notJSON(data []byte) error {
	var value json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	if decoder.Decode(&value) == nil {
		return fmt.Errorf("has more after its JSON value, at byte %d", decoder.InputOffset()+1)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, &value)); ok {
		return fmt.Errorf("is not JSON: the mistake is at byte %d", syntax.Offset)
	}
	return errors.New("is not JSON")
}

// nextValue returns the next value of an object or array, names being values too, and what is behind it. The value is nil at the
// end of the object or array.
func nextValue(data []byte) (value, rest []byte) {
	data = bytes.TrimLeft(data, " \t\r\n,:")
	if data[0] == '}' || data[0] == ']' {
		return nil, data
	}
	end := valueEnd(data)
	return data[:end], data[end:]
}

// valueEnd returns the length of the value that data begins with.
func valueEnd(data []byte) int {
	switch data[0] {
	case '"':
		return textEnd(data)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch data[i] {
			case '"':
				i += textEnd(data[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	return bytes.IndexAny(data, ",}] \t\r\n") // inside of an object, a number or a word ends before one of these
}

// textEnd returns the length of the string literal that data begins with.
func textEnd(data []byte) int {
	for i := 1; ; i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// textOf returns the text of a string literal.
func textOf(literal []byte) string {
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(literal[1 : len(literal)-1])
	}
	var text string
	_ = json.Unmarshal(literal, &text) // is a valid literal, so it cannot fail
	return text
}
