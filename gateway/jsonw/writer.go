package jsonw

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ErrUnrepresentable is wrapped by errors for values that cannot be represented in JSON or in the
// API.
var ErrUnrepresentable = errors.New("value cannot be represented in JSON")

// A Writer appends one JSON document to a buffer. The zero Writer is ready for use. Only
// StringEscapedName escapes the field name; the names of other fields must be literals of the
// program.
type Writer struct {
	buf []byte
	err error
}

// Locate adds a location to the error, if there is an error.
func (w *Writer) Locate(where string) {
	if w.err != nil {
		w.err = fmt.Errorf("%s: %w", where, w.err)
	}
}

// Reset discards the document and its error, and keeps the buffer.
func (w *Writer) Reset() {
	w.buf = w.buf[:0]
	w.err = nil
}

// Bytes returns the document, valid until the next Reset.
func (w *Writer) Bytes() []byte { return w.buf }

// Cap returns the capacity of the buffer in bytes.
func (w *Writer) Cap() int { return cap(w.buf) }

// Err returns the first error, or nil. A document with an error must not be used.
func (w *Writer) Err() error { return w.err }

// Fail records an error, unless one is recorded.
func (w *Writer) Fail(name, reason string) {
	if w.err == nil {
		w.err = fmt.Errorf("field %q: %s: %w", name, reason, ErrUnrepresentable)
	}
}

// BeginObject opens the object that is the document, or an element of an array.
func (w *Writer) BeginObject() {
	w.separate()
	w.buf = append(w.buf, '{')
}

// EndObject closes the innermost object.
func (w *Writer) EndObject() { w.buf = append(w.buf, '}') }

// Object opens an object as a field.
func (w *Writer) Object(name string) {
	w.key(name)
	w.buf = append(w.buf, '{')
}

// BeginArray opens the array that is the document.
func (w *Writer) BeginArray() {
	w.separate()
	w.buf = append(w.buf, '[')
}

// Array opens an array as a field.
func (w *Writer) Array(name string) {
	w.key(name)
	w.buf = append(w.buf, '[')
}

// EndArray closes the innermost array.
func (w *Writer) EndArray() { w.buf = append(w.buf, ']') }

// String writes a text field.
func (w *Writer) String(name, value string) {
	w.key(name)
	w.buf = appendString(w.buf, value)
}

// StringOrNull writes a text field, null if value is nil.
func (w *Writer) StringOrNull(name string, value *string) {
	if value == nil {
		w.Null(name)
		return
	}
	w.String(name, *value)
}

// StringEscapedName writes a text field and escapes its name.
func (w *Writer) StringEscapedName(name, value string) {
	w.separate()
	w.buf = appendString(w.buf, name)
	w.buf = append(w.buf, ':')
	w.buf = appendString(w.buf, value)
}

// Strings writes an array of texts.
func (w *Writer) Strings(name string, values []string) {
	w.Array(name)
	for i, v := range values {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = appendString(w.buf, v)
	}
	w.EndArray()
}

// Bool writes a boolean field.
func (w *Writer) Bool(name string, value bool) {
	w.key(name)
	w.buf = strconv.AppendBool(w.buf, value)
}

// Int writes an integer field.
func (w *Writer) Int(name string, value int64) {
	w.key(name)
	w.buf = strconv.AppendInt(w.buf, value, 10)
}

// Null writes a null field.
func (w *Writer) Null(name string) {
	w.key(name)
	w.buf = append(w.buf, "null"...)
}

// IntOrNull writes an integer field, null if value is nil.
func IntOrNull[N int32 | int64](w *Writer, name string, value *N) {
	if value == nil {
		w.Null(name)
		return
	}
	w.Int(name, int64(*value))
}

// Float writes a number field in the shortest form that parses to the same value. A value that is
// not finite is an error.
func (w *Writer) Float(name string, value float64) {
	if math.IsInf(value, 0) || math.IsNaN(value) {
		w.Fail(name, fmt.Sprintf("%v is not finite", value))
		return
	}
	w.key(name)
	// As in encoding/json: an exponent only if the plain form is long (ECMA-262, Number::toString).
	format := byte('f')
	if abs := math.Abs(value); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	w.buf = strconv.AppendFloat(w.buf, value, format, -1, 64)
	if n := len(w.buf); format == 'e' && n >= 4 && w.buf[n-4] == 'e' && w.buf[n-3] == '-' && w.buf[n-2] == '0' {
		w.buf[n-2] = w.buf[n-1] // e-09 is written e-9
		w.buf = w.buf[:n-1]
	}
}

// Time writes a time field in UTC with milliseconds (docs/integrate/contract.md, "Values"). A nil
// value, or one outside of the years 0001 to 9999, is an error.
func (w *Writer) Time(name string, value *timestamppb.Timestamp) {
	if value == nil {
		w.Fail(name, "time is absent")
		return
	}
	if value.CheckValid() != nil {
		w.Fail(name, fmt.Sprintf("time is out of range: %d s and %d ns", value.GetSeconds(), value.GetNanos()))
		return
	}
	w.key(name)
	w.buf = append(w.buf, '"')
	w.buf = appendTime(w.buf, value.Seconds, value.Nanos)
	w.buf = append(w.buf, '"')
}

func (w *Writer) key(name string) {
	w.separate()
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '"', ':')
}

// separate writes a comma before a value, unless the value is the first in its object or array, or
// follows a name. The last byte is sufficient to decide that: no value ends with an opening
// delimiter or a colon, because a string ends with a quote.
func (w *Writer) separate() {
	if len(w.buf) == 0 {
		return
	}
	switch w.buf[len(w.buf)-1] {
	case '{', '[', ':':
	default:
		w.buf = append(w.buf, ',')
	}
}

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // it returns an error for invalid UTF-8
	return b
}

func appendTime(b []byte, seconds int64, nanos int32) []byte {
	t := time.Unix(seconds, 0).UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendTwo(b, year/100)
	b = appendTwo(b, year%100)
	b = append(b, '-')
	b = appendTwo(b, int(month))
	b = append(b, '-')
	b = appendTwo(b, day)
	b = append(b, 'T')
	b = appendTwo(b, hour)
	b = append(b, ':')
	b = appendTwo(b, minute)
	b = append(b, ':')
	b = appendTwo(b, second)
	millis := int(nanos / 1_000_000)
	b = append(b, '.', byte('0'+millis/100))
	b = appendTwo(b, millis%100)
	return append(b, 'Z')
}

func appendTwo(b []byte, n int) []byte {
	return append(b, byte('0'+n/10), byte('0'+n%10))
}
