package decode

import (
	"bytes"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxCursorLen is the maximal length of a cursor in the contract with the services.
const MaxCursorLen = 512

// Bounds of Query.Unknown.
const (
	maxUnknown        = 10
	maxUnknownNameLen = 64
)

// A Query decodes the parameters of a route and collects all problems. Unknown parameters are
// ignored, and Unknown returns their names (docs/integrate/contract.md, "Requests").
type Query struct {
	raw      string
	problems map[string]string
}

// NewQuery returns the decoder of an encoded query.
func NewQuery(raw string) *Query { return &Query{raw: raw} }

// Err returns nil, or an *Error with all invalid parameters.
func (q *Query) Err() error {
	if q.problems == nil {
		return nil
	}
	return &Error{Part: PartQuery, Details: Details(q.problems)}
}

// Unknown returns the names of the parameters that are not in known, each once, as a list of
// strings (RFC 9651); "" if there are none. It returns the first maxUnknown names. It omits a name
// that is empty, longer than maxUnknownNameLen, malformed or not printable ASCII, or contains the
// prefix of tokens. It allocates only for the names that it returns.
func (q *Query) Unknown(known []string, tokenPrefix string) string {
	var names []string
	for rest := q.raw; rest != "" && len(names) < maxUnknown; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		key, _, _ := strings.Cut(pair, "=")
		if slices.ContainsFunc(known, func(name string) bool { return sameKey(key, name) }) {
			continue
		}
		var buffer [2*maxUnknownNameLen + len(`""`)]byte
		name, ok := appendString(buffer[:0], key)
		isToken := tokenPrefix != "" && bytes.Contains(name, []byte(tokenPrefix))
		if ok && !isToken && !slices.ContainsFunc(names, func(other string) bool { return other == string(name) }) {
			names = append(names, string(name))
		}
	}
	return strings.Join(names, ", ")
}

// appendString appends an encoded key as a string of RFC 9651, and reports whether Unknown returns
// the key.
func appendString(b []byte, key string) ([]byte, bool) {
	b = append(b, '"')
	length := 0
	for key != "" {
		c, rest, ok := nextByte(key)
		if length++; !ok || c < ' ' || c > '~' || length > maxUnknownNameLen {
			return nil, false
		}
		if c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b, key = append(b, c), rest
	}
	return append(b, '"'), length > 0
}

// Int returns an integer from low to high, or def if the parameter is absent.
func (q *Query) Int(name string, low, high, def int32) int32 {
	text, given := q.single(name)
	if !given {
		return def
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strings.HasPrefix(text, "+") || n < int64(low) || n > int64(high) {
		if high == math.MaxInt32 { // the API has no maximum
			q.Fail(name, fmt.Sprintf("must be a whole number, at least %d", low))
		} else {
			q.Fail(name, fmt.Sprintf("must be a whole number from %d to %d", low, high))
		}
		return def
	}
	return int32(n)
}

// Text returns the parameter, or "" if it is absent.
func (q *Query) Text(name string) string {
	text, _ := q.once(name)
	return text
}

// Cursor returns the cursor. If the parameter cannot be a cursor, ignored is true, and Err returns
// no error for it.
func (q *Query) Cursor() (cursor string, ignored bool) {
	values, malformed := q.values("cursor")
	if malformed || len(values) > 1 || len(values) == 1 && len(values[0]) > MaxCursorLen {
		return "", true
	}
	if len(values) == 0 {
		return "", false
	}
	return values[0], false
}

// Time returns an RFC 3339 time, or def if the parameter is absent. It accepts an offset without a
// colon, and an offset with a space instead of +, because a + in a query is decoded as a space.
func (q *Query) Time(name string, def time.Time) time.Time {
	text, given := q.single(name)
	if !given {
		return def
	}
	// ISO 8601 also allows an offset without a colon.
	if i := len(text) - len("+0000"); i > 0 && strings.ContainsRune("+- ", rune(text[i])) {
		text = text[:i+3] + ":" + text[i+3:]
	}
	if i := len(text) - len("+00:00"); i > 0 && text[i] == ' ' {
		text = text[:i] + "+" + text[i+1:]
	}
	t, err := time.Parse(time.RFC3339, text)
	// Parse also accepts an hour of one digit and a comma before the fraction (go.dev/issue/54580);
	// RFC 3339 does not. A text with such an hour may end before secondEnd, so the hour is checked
	// first.
	const hourEnd, secondEnd = len("2006-01-02T15"), len("2006-01-02T15:04:05")
	if err != nil || text[hourEnd] != ':' || text[secondEnd] == ',' || impossibleOffset(text) {
		q.Fail(name, "must be an RFC 3339 date-time with Z or an offset, as 2026-01-02T03:04:05Z")
		return def
	}
	return t.UTC()
}

// impossibleOffset reports whether a time that Parse accepts has an offset that RFC 3339 does not
// allow: 24 hours or 60 minutes.
func impossibleOffset(text string) bool {
	offset := text[len(text)-len("+00:00"):]
	return text[len(text)-1] != 'Z' && (offset[1:3] > "23" || offset[4:6] > "59")
}

// OneOf returns the index of the parameter in values, or -1 if it is absent or another.
func (q *Query) OneOf(name string, values []string) int {
	text, given := q.single(name)
	if !given {
		return -1
	}
	i := slices.Index(values, text)
	if i < 0 {
		q.Fail(name, oneOfProblem(values))
	}
	return i
}

// single returns the value of a parameter, which must be neither empty nor repeated.
func (q *Query) single(name string) (value string, given bool) {
	value, given = q.once(name)
	if given && value == "" {
		q.Fail(name, "must not be empty")
		given = false
	}
	return value, given
}

// once returns the value of a parameter, which must not be repeated.
func (q *Query) once(name string) (value string, given bool) {
	values, malformed := q.values(name)
	switch {
	case malformed:
		q.Fail(name, "must be percent-encoded UTF-8 without NUL")
	case len(values) > 1:
		q.Fail(name, "must be given once")
	case len(values) == 1:
		return values[0], true
	}
	return "", false
}

// values returns the first two values of a parameter, and reports whether one of the two is
// malformed. More are not needed, because two values are a problem.
func (q *Query) values(name string) (values []string, malformed bool) {
	for rest := q.raw; rest != "" && len(values) < 2; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		key, value, _ := strings.Cut(pair, "=")
		if !sameKey(key, name) {
			continue
		}
		text, err := url.QueryUnescape(value)
		if err != nil || !validText(text) {
			malformed = true
		}
		values = append(values, text)
	}
	return values, malformed
}

// sameKey reports whether an encoded key is the given name. It stops at the first difference and
// does not allocate: a query may have thousands of keys, and each parameter compares all of them.
func sameKey(key, name string) bool {
	for i := range len(name) {
		if key == "" {
			return false
		}
		c, rest, ok := nextByte(key)
		if !ok || c != name[i] {
			return false
		}
		key = rest
	}
	return key == ""
}

// nextByte returns the first byte of an encoded key that is not empty, and the rest. If the key is
// malformed, ok is false.
func nextByte(key string) (c byte, rest string, ok bool) {
	c, rest = key[0], key[1:]
	switch {
	case c == '+':
		return ' ', rest, true
	case c != '%':
		return c, rest, true
	case len(rest) < 2 || !isHexDigit(rest[0]) || !isHexDigit(rest[1]):
		return 0, "", false
	}
	return hexValue(rest[0])<<4 | hexValue(rest[1]), rest[2:], true
}

func isHexDigit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' } // 0x20: in lower case

// hexValue returns the value of a hex digit.
func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return (c | 0x20) - 'a' + 10
}

// Fail records a problem of a parameter.
func (q *Query) Fail(name, text string) {
	if q.problems == nil {
		q.problems = make(map[string]string)
	}
	q.problems[name] = text
}
