package site

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"
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
	HTML         template.HTML
	Fields       []field // of an object, or of the elements of an array
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

// shape returns the fields of a schema.
func (s *site) shape(of schema, at place) (shape, error) {
	resolved, name := s.document.resolve(of)
	made := shape{Schema: s.objectName(resolved, name)}
	made.Type = s.typeWith(resolved, made.Schema)
	properties := resolved
	if isArray(resolved) {
		properties, _ = s.document.resolve(*resolved.Items)
	}
	fields, err := s.fields(properties, at)
	made.Fields = fields
	return made, err
}

func (s *site) fields(of schema, at place) ([]field, error) {
	var fields []field
	for _, property := range of.Properties {
		f, err := s.field(property.Name, property.Value, at)
		if err != nil {
			return nil, err
		}
		f.Note = at.note(slices.Contains(of.Required, property.Name))
		fields = append(fields, f)
	}
	return fields, nil
}

func (s *site) field(name string, of schema, at place) (field, error) {
	resolved, component := s.document.resolve(of)
	f := field{
		Name: name, Anchor: at.prefix + "." + name, Depth: at.depth, Schema: s.objectName(resolved, component),
		Deprecated: resolved.Deprecated, Limits: limits(resolved), Text: resolved.text(),
	}
	f.Type = s.typeWith(resolved, f.Schema)
	f.Values, f.Open = s.values(resolved)
	html, err := s.markdown.text(f.Text)
	if err != nil {
		return field{}, err
	}
	f.HTML = html
	inner, err := s.shape(resolved, at.below(f))
	f.Fields = inner.Fields
	return f, err
}

// values returns the values that a schema lists, and reports whether there may be others. For an array they are those of its elements.
func (s *site) values(of schema) (values []string, open bool) {
	if isArray(of) {
		of, _ = s.document.resolve(*of.Items)
	}
	listed := of.Enum
	if of.Const != nil {
		listed = []any{of.Const}
	}
	if listed == nil {
		listed, open = of.Known, true
	}
	for _, v := range listed {
		if v != nil {
			values = append(values, fmt.Sprint(v))
		}
	}
	return values, open && len(values) > 0
}

// objectName returns the name of the component that describes the fields of an object, or of the elements of an array of objects.
func (s *site) objectName(of schema, name string) string {
	if isArray(of) {
		of, name = s.document.resolve(*of.Items)
	}
	if len(of.Properties) == 0 {
		return ""
	}
	return name
}

// typeName returns the type of a value in words.
func (s *site) typeName(of schema) string {
	var names []string
	for _, t := range of.Type {
		switch {
		case t == "array" && of.Items != nil:
			element, component := s.document.resolve(*of.Items)
			names = append(names, "array of "+s.plural(element, component))
		case t == "object" && of.AdditionalProperties.schema != nil:
			value, _ := s.document.resolve(*of.AdditionalProperties.schema)
			names = append(names, "object with "+s.plural(value, "")+" as values")
		case of.Format != "" && t == "string":
			names = append(names, cmp.Or(map[string]string{"uuid": "UUID", "date-time": "time"}[of.Format], t))
		default:
			names = append(names, t)
		}
	}
	return strings.Join(names, " or ")
}

// typeWith returns the type in words, with the name of the component for an object.
func (s *site) typeWith(of schema, component string) string {
	if component == "" || isArray(of) {
		return s.typeName(of)
	}
	return strings.Replace(s.typeName(of), "object", component, 1)
}

func (s *site) plural(of schema, component string) string {
	if len(of.Properties) > 0 && component != "" {
		return component
	}
	return s.typeName(of) + "s"
}

// isArray reports whether a schema is of arrays, with a schema of their elements.
func isArray(s schema) bool { return s.Items != nil && slices.Contains(s.Type, "array") }

// limits returns the bounds and the default of a schema in words.
func limits(of schema) []string {
	var made []string
	add := func(text string) {
		if text != "" {
			made = append(made, text)
		}
	}
	add(between(of.MinLength, of.MaxLength, "characters"))
	add(between(of.MinItems, of.MaxItems, "items"))
	add(between(of.Minimum, of.Maximum, ""))
	if of.Default != nil {
		add(fmt.Sprintf("default %v", of.Default))
	}
	return made
}

func between[T int | json.Number](low, high *T, unit string) string {
	var text string
	switch {
	case low != nil && high != nil:
		text = fmt.Sprintf("%v to %v", *low, *high)
	case low != nil:
		text = fmt.Sprintf("at least %v", *low)
	case high != nil:
		text = fmt.Sprintf("at most %v", *high)
	default:
		return ""
	}
	return strings.TrimSpace(text + " " + unit)
}
