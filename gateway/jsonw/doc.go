// Package jsonw writes JSON by appending to a byte slice, without reflection, and without allocation if the slice is large enough. It writes
// valid JSON with the text encoding of encoding/json (without HTML escapes) and the API's time format. The first value without a JSON form is
// recorded as an error.
package jsonw
