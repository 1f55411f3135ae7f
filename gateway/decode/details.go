package decode

import (
	"maps"
	"slices"

	"opsgate/gateway/jsonw"
)

// The parts of a request that an [Error] can concern.
const (
	PartQuery          = "query"
	PartBody           = "body"
	PartIdempotencyKey = "key" // that header alone
)

// An Error is the error of input that is not valid.
type Error struct {
	Part    string
	Details map[string]string // for the client: problems by parameter, header or field
}

// Error describes the input without the client's text.
func (e *Error) Error() string { return "the " + e.Part + " is not valid" }

// Limits of the details in one response (docs/integrate/contract.md, "Errors"): a client may send
// thousands of unknown names.
const (
	maxDetails     = 20
	maxDetailsSize = 8 << 10 // bytes of JSON
	maxDetailName  = 64      // characters
)

// Details returns the problems of parameters, headers and fields, and a problem for each unknown
// field, by name. Problems are added first, sorted by name, then unknown fields in their order.
// Long names are truncated. Details past the limits of a response are dropped.
func Details(problems map[string]string, unknown ...string) map[string]string {
	d := details{texts: make(map[string]string, min(len(problems)+len(unknown), maxDetails)), size: len("{}")}
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		d.add(name, problems[name])
	}
	for _, name := range unknown {
		d.add(name, "is not a field of this request")
	}
	return d.texts
}

// details collects texts by name, within the limits of a response.
type details struct {
	texts map[string]string
	size  int // in bytes of JSON
	json  jsonw.Writer
}

// add adds a detail, unless the name already has one or a limit is reached.
func (d *details) add(name, text string) {
	name = FirstChars(name, maxDetailName)
	if _, exists := d.texts[name]; exists || len(d.texts) == maxDetails {
		return
	}
	d.json.Reset()
	d.json.StringEscapedName(name, text)
	size := len(d.json.Bytes()) + len(",")
	if d.size+size > maxDetailsSize {
		return
	}
	d.size += size
	d.texts[name] = text
}
