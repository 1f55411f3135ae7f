package gateway

import (
	"net/http"

	"opsgate/gateway/jsonw"
)

// Bounds of the details of one answer (decisions, "Requests"): names are the client's own, and there may be thousands.
const (
	maxDetails     = 20
	maxDetailsSize = 8 << 10 // bytes of JSON
	maxDetailName  = 64      // characters
)

// invalid reports what is wrong with a request: problems by parameter, header or field, and the names of fields that the operation
// does not have, in the order of the body. Every 422 is made here, so this is where its details are bounded: problems come first, by
// name, then the unknown fields; longer names are cut, and what has no room is left out.
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

// details are texts by name, within the bounds of an answer.
type details struct {
	texts map[string]string
	size  int // in bytes of JSON
	json  jsonw.Writer
}

// add adds a detail, unless there is one of that name or no room for it.
func (d *details) add(name, text string) {
	name = firstChars(name, maxDetailName)
	if _, there := d.texts[name]; there || len(d.texts) == maxDetails {
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

// firstChars returns the first characters of a text, at most so many.
func firstChars(text string, most int) string {
	for i := range text {
		if most == 0 {
			return text[:i]
		}
		most--
	}
	return text
}
