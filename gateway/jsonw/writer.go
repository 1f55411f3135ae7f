package jsonw

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// ErrNoForm is wrapped by errors for values that JSON, or the API's contract, has no form for.
var ErrNoForm = errors.New("value has no JSON form")

// A Writer appends one JSON document to a buffer. The zero Writer is ready; Reset makes it ready again and keeps the buffer.
// Field names are written as they are: they are literals of the program, not data.
type Writer struct {
	buf []byte
	err error
}

// Reset empties the document and forgets its error.
func (w *Writer) Reset() {
	w.buf = w.buf[:0]
	w.err = nil
}

// Bytes returns the document, valid until the next Reset.
func (w *Writer) Bytes() []byte { return w.buf }

// Cap returns the size of the buffer in bytes, so that a pool can let go of one that has grown too large.
func (w *Writer) Cap() int { return cap(w.buf) }

// Err returns the first failure, or nil. A document with an error must not be sent.
func (w *Writer) Err() error { return w.err }

// Fail records that the document cannot be written, for the reason given. The first reason stays.
func (w *Writer) Fail(name, reason string) {
	if w.err == nil {
		w.err = fmt.Errorf("field %q: %s: %w", name, reason, ErrNoForm)
	}
}

// BeginObject opens an object: the document itself, or an element of an array.
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

// BeginArray opens an array that is the document itself.
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

// StringOrNull writes a text field, null where there is no value.
func (w *Writer) StringOrNull(name string, value *string) {
	if value == nil {
		w.Null(name)
		return
	}
	w.String(name, *value)
}

// Field writes a text field whose name is data, and so is escaped.
func (w *Writer) Field(name, value string) {
	w.separate()
	w.buf = appendString(w.buf, name)
	w.buf = append(w.buf, ':')
	w.buf = appendString(w.buf, value)
}

// Strings writes an array of texts, [] where there is none.
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

// Bool writes a truth value.
func (w *Writer) Bool(name string, value bool) {
	w.key(name)
	w.buf = strconv.AppendBool(w.buf, value)
}

// Int writes a whole number.
func (w *Writer) Int(name string, value int64) {
	w.key(name)
	w.buf = strconv.AppendInt(w.buf, value, 10)
}

// Null writes an absent value.
func (w *Writer) Null(name string) {
	w.key(name)
	w.buf = append(w.buf, "null"...)
}

// IntOrNull writes a whole number, null where there is no value.
func IntOrNull[N int32 | int64](w *Writer, name string, value *N) {
	if value == nil {
		w.Null(name)
		return
	}
	w.Int(name, int64(*value))
}

// Float writes a number in the shortest form that reads back the same. A number that is not finite fails the document.
func (w *Writer) Float(name string, value float64) {
	if math.IsInf(value, 0) || math.IsNaN(value) {
		w.Fail(name, "number is not finite")
		return
	}
	w.key(name)
	// As in encoding/json: exponents only where the plain form would be long (ECMA-262, Number::toString).
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

// Time writes a point in time as the API has it: UTC, three digits of milliseconds (specification, part 1). An absent one, or
// one outside the years 0001 to 9999, fails the document.
func (w *Writer) Time(name string, value *timestamppb.Timestamp) {
	if value == nil {
		w.Fail(name, "time is absent")
		return
	}
	if value.CheckValid() != nil {
		w.Fail(name, "time is out of range")
		return
	}
	w.key(name)
	w.buf = append(w.buf, '"')
	w.buf = appendTime(w.buf, value.Seconds, value.Nanos)
	w.buf = append(w.buf, '"')
}

// TimeOrNull writes a point in time, null where there is no value.
func (w *Writer) TimeOrNull(name string, value *timestamppb.Timestamp) {
	if value == nil {
		w.Null(name)
		return
	}
	w.Time(name, value)
}

func (w *Writer) key(name string) {
	w.separate()
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '"', ':')
}

// separate writes the comma that belongs between what was written and what comes next. The last byte tells: outside of
// strings, which end in a quote, the bytes below open something that has no element yet.
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
