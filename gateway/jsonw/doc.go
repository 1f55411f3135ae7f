// Package jsonw writes JSON by appending to a byte slice, without reflection, and without allocation if the slice is large enough. The JSON
// is valid; text is encoded as in encoding/json (without HTML escapes), and time in the format of the API. The first value that cannot be
// represented is recorded as an error.
package jsonw
