package gateway

import (
	"net/http"

	"opsgate/gateway/jsonw"
)

// Limits of the details in one response (docs/integrate/contract.md, "Errors"): a client may send thousands of unknown names.
const (
	maxDetails     = 20
	maxDetailsSize = 8 << 10 // bytes of JSON
	maxDetailName  = 64      // characters
)

// invalid returns a 422 with the problems by parameter, header or field, and with the names of unknown fields. It applies the limits of
// details: problems come first, sorted by name, then unknown fields in their order. Long names are truncated, and details beyond the limits
// are dropped.
func invalid(problems map[string]string, unknown ...string) *Problem {
	d := details{texts: make(map[string]string, min(len(problems)+len(unknown), maxDetails)), size: len("{}")}
	for _, name := range sortedKeys(problems) {
		d.add(name, problems[name])
	}
	for _, name := range unknown {
		d.add(name, "is not a field of this request")
	}
	return &Problem{
		Status: http.StatusUnprocessableEntity, Code: "validation_error", Text: "the request has invalid fields", Details: d.texts,
	}
}

// details collects texts by name, within the limits of a response.
type details struct {
	texts map[string]string
	size  int // in bytes of JSON
	json  jsonw.Writer
}

// add adds a detail, unless the name already has one or a limit is reached.
func (d *details) add(name, text string) {
	name = firstChars(name, maxDetailName)
	if _, exists := d.texts[name]; exists || len(d.texts) == maxDetails {
		return
	}
	d.json.Reset()
	d.json.Field(name, text)
	size := len(d.json.Bytes()) + len(",")
	if d.size+size > maxDetailsSize {
		return
	}
	d.size += size
	d.texts[name] = text
}

// firstChars returns the first n characters of a text.
func firstChars(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
