// Package jsonw writes JSON by appending to a byte slice, without reflection, and without
// allocation if the slice is large enough. The JSON is valid; text has the escapes of RFC 8785 and
// no others, and time is in the format of the API. The first value that cannot be represented is
// recorded as an error.
package jsonw
