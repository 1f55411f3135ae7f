// Package jsonw writes JSON by appending to a byte slice: no reflection, no intermediate values, no allocation once the
// slice is large enough. It promises valid JSON with the same text encoding as encoding/json (without HTML escapes), the
// API's time format, and one sticky error for values that have no JSON form. It knows nothing of what is written.
package jsonw
