package site

import (
	"cmp"
	"slices"
	"strings"

	"opsgate/gateway/openapi"
)

// A field is a parameter, or a property of a request, a response or a schema.
type field struct {
	Name, Anchor string
	In           string // place of a parameter: path, query or header
	Type         string // for example "string or null", "array of strings"
	Schema       string // component with the fields of this object or of the elements of this array
	Note         string // "required" or "may be absent", if it is not as usual for its place
	Example      string // of a parameter
	Deprecated   bool
	Depth        int      // 0 for a field of the outermost object
	Limits       []string // for example "1 to 255 characters"
	Values       []string // allowed or known values
	Open         bool     // whether other values than Values may appear
	Text         string   // description in Markdown
	Fields       []field  // of an object, or of the elements of an array
}

// shape describes a value: the body of a request or of a response.
type shape struct {
	Type   string
	Schema string
	Fields []field
}

// A place is where fields are described.
type place struct {
	prefix string // of the anchors
	sent   bool   // the fields are those of a request: they are optional unless they are required
	depth  int
}

func (p place) below(f field) place { return place{f.Anchor, p.sent, p.depth + 1} }

// note returns what a reader must know about the presence of a field.
func (p place) note(required bool) string {
	switch {
	case p.sent && required:
		return "required"
	case !p.sent && !required:
		return "may be absent"
	}
	return ""
}

// newShape returns the shape of a schema.
func newShape(of openapi.Schema, at place) shape {
	made := shape{Schema: objectName(of), Type: typeWithName(of)}
	of = elements(of)
	for _, property := range of.Properties {
		f := newField(property.Name, property.Value, at)
		f.Note = at.note(of.Requires(property.Name))
		made.Fields = append(made.Fields, f)
	}
	return made
}

func newField(name string, of openapi.Schema, at place) field {
	f := field{
		Name: name, Anchor: at.prefix + "." + name, Depth: at.depth, Schema: objectName(of), Type: typeWithName(of),
		Deprecated: of.Deprecated, Limits: limits(of), Text: description(of),
	}
	f.Values, f.Open = values(of)
	f.Fields = newShape(of, at.below(f)).Fields
	return f
}

// description returns the description without the list of known values that openapigen adds for
// generated clients: the pages list them.
func description(of openapi.Schema) string {
	text, _, _ := strings.Cut(of.Description, " Known values: ")
	return strings.TrimSpace(text)
}

// elements returns the schema of the elements of an array, and any other schema itself.
func elements(of openapi.Schema) openapi.Schema {
	if isArray(of) {
		return *of.Items
	}
	return of
}

// values returns the values that a schema lists, and reports whether there may be others. For an
// array they are those of its elements.
func values(of openapi.Schema) (values []string, open bool) {
	of = elements(of)
	if of.Enum != nil {
		return of.Enum, false
	}
	return of.Known, len(of.Known) > 0
}

// objectName returns the name of the component that describes the fields of an object, or of the
// elements of an array of objects.
func objectName(of openapi.Schema) string {
	of = elements(of)
	if len(of.Properties) == 0 {
		return ""
	}
	return of.Name
}

// typeName returns the type of a value in words.
func typeName(of openapi.Schema) string {
	var names []string
	for _, t := range of.Type {
		switch {
		case t == "array" && of.Items != nil:
			names = append(names, "array of "+plural(*of.Items))
		case t == "object" && of.AdditionalProperties != nil && of.AdditionalProperties.Type != nil:
			names = append(names, "object with "+plural(*of.AdditionalProperties)+" as values")
		case of.Format != "" && t == "string":
			names = append(names, cmp.Or(map[string]string{"uuid": "UUID", "date-time": "time"}[of.Format], t))
		default:
			names = append(names, t)
		}
	}
	return strings.Join(names, " or ")
}

// typeWithName returns the type in words, with the name of the component for an object.
func typeWithName(of openapi.Schema) string {
	name := objectName(of)
	if name == "" || isArray(of) {
		return typeName(of)
	}
	return strings.Replace(typeName(of), "object", name, 1)
}

func plural(of openapi.Schema) string {
	if len(of.Properties) > 0 && of.Name != "" {
		return of.Name
	}
	return typeName(of) + "s"
}

// isArray reports whether a schema is of arrays, with a schema of their elements.
func isArray(s openapi.Schema) bool { return s.Items != nil && s.Is("array") }

// limits returns the bounds and the default of a schema in words.
func limits(of openapi.Schema) []string {
	made := []string{
		between(of.MinLength, of.MaxLength, " characters"), between(of.MinItems, of.MaxItems, " items"),
		between(of.Minimum, of.Maximum, ""),
	}
	if of.Default != "" {
		made = append(made, "default "+of.Default)
	}
	return slices.DeleteFunc(made, func(text string) bool { return text == "" })
}

func between(low, high, unit string) string {
	switch {
	case low != "" && high != "":
		return low + " to " + high + unit
	case low != "":
		return "at least " + low + unit
	case high != "":
		return "at most " + high + unit
	}
	return ""
}
