// Package jsonw writes JSON by appending to a byte slice, without reflection, and without
// allocation if the slice is large enough. The JSON is valid. Text has the escapes of RFC 8785 and
// no others. Times have the format of the API. The error of a Writer is about the first value that
// JSON cannot represent.
package jsonw
