package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"opsgate/gateway/openapi"
)

//go:embed templates
var templates embed.FS

// description is what the templates of the client packages get.
type description struct {
	Types, Inputs []openapi.Schema // objects and enumerations; those only of requests
	Calls         []call
	texts         map[string]string // descriptions of schemas that are not in the lists yet, by name
}

// call is an operation of a client.
type call struct {
	openapi.Operation
	Name  string
	Query []parameter
	Body  openapi.Schema
	Item  *openapi.Schema // of a page; nil for other answers
}

// parameter is a query parameter.
type parameter struct{ openapi.Parameter }

// IsSize reports whether the parameter is the number of items of a page.
func (p parameter) IsSize() bool { return p.Name == "limit" || p.Name == "pageSize" }

// HasID reports whether the path has the parameter id, the only one of any path.
func (c call) HasID() bool { return strings.Contains(c.Path, "{id}") }

// Filters returns the query parameters that all pages share.
func (c call) Filters() []parameter {
	return slices.DeleteFunc(slices.Clone(c.Query), func(p parameter) bool { return selectsPage(p.Parameter) })
}

// selectsPage reports whether the parameter selects a page, so that the answer is one.
func selectsPage(p openapi.Parameter) bool {
	return p.In == "query" && (p.Name == "cursor" || p.Name == "page")
}

// itemOf returns the schema of the items of an operation with pages; nil for any other operation.
func itemOf(o openapi.Operation) (*openapi.Schema, error) {
	if !slices.ContainsFunc(o.Parameters, selectsPage) {
		return nil, nil //nolint:nilnil // documented
	}
	items := o.Answer().Properties.Get("items")
	if items == nil || items.Items == nil {
		return nil, errors.New("its answer is a page without items")
	}
	return items.Items, nil
}

// describe returns what the templates get of the document.
func describe(document *openapi.Document) (*description, error) {
	d := &description{texts: map[string]string{}}
	for _, s := range document.Components.Schemas {
		d.texts[s.Name] = s.Value.Description
	}
	for _, o := range document.Operations {
		c := call{Operation: o, Name: strings.TrimPrefix(o.ID, "v1"), Body: o.RequestBody.Content.JSON.Schema}
		var err error
		if c.Item, err = itemOf(o); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Method, o.Path, err)
		}
		d.Types = d.add(d.Types, o.Answer())
		for _, p := range o.Parameters {
			if p.In == "query" {
				c.Query = append(c.Query, parameter{p})
				d.Types = d.add(d.Types, p.Schema)
			}
		}
		d.Calls = append(d.Calls, c)
	}
	for _, c := range d.Calls {
		d.Inputs = d.add(d.Inputs, c.Body)
	}
	return d, nil
}

// add appends the named objects and enumerations of a schema that are new.
func (d *description) add(list []openapi.Schema, s openapi.Schema) []openapi.Schema {
	for _, p := range s.Properties {
		list = d.add(list, p.Value)
	}
	if s.Items != nil {
		list = d.add(list, *s.Items)
	}
	if text, isNew := d.texts[s.Name]; isNew && isType(s) {
		delete(d.texts, s.Name)
		s.Description = text
		list = append(list, s)
	}
	return list
}

// isType reports whether clients have a type for the schema.
func isType(s openapi.Schema) bool { return s.Name != "" && (s.Is("object") || s.Enum != nil) }

// language has the types of a language.
type language struct {
	file                               string
	text, time, whole, number, boolean string
	list, null                         string // with %s
	enum, or                           string // with %s for the values and what is between these; none: text
}

// languages returns the languages of the client packages, by the template of the generated file.
func languages() map[string]language {
	return map[string]language{
		"python.tmpl": {
			"clients/python/opsgate_client/operations.py",
			"str", "datetime", "int", "float", "bool", "list[%s]", "%s | None", "Literal[%s]", ", ",
		},
		"typescript.tmpl": {
			"clients/typescript/opsgate-client/operations.d.ts",
			"string", "string", "number", "number", "boolean", "%s[]", "%s | null", "%s", " | ",
		},
		"go.tmpl": {
			file: "clients/go/client/operations.gen.go",
			text: "string", time: "time.Time", whole: "int", number: "float64", boolean: "bool", list: "[]%s", null: "*%s",
		},
		"javascript.tmpl": {file: "clients/typescript/opsgate-client/operations.js"},
	}
}

// of returns the type of a schema, without null if it is optional.
func (l language) of(s openapi.Schema, optional bool) string {
	var t string
	switch {
	case isType(s):
		t = s.Name
	case s.Format == "date-time":
		t = l.time
	case s.Is("array"):
		t = fmt.Sprintf(l.list, l.of(*s.Items, false))
	case s.Is("integer"):
		t = l.whole
	case s.Is("number"):
		t = l.number
	case s.Is("boolean"):
		t = l.boolean
	default:
		t = l.values(s)
	}
	if s.Is("null") && !optional {
		return fmt.Sprintf(l.null, t)
	}
	return t
}

// values returns the type of a text.
func (l language) values(s openapi.Schema) string {
	if s.Enum == nil || l.enum == "" {
		return l.text
	}
	return fmt.Sprintf(l.enum, `"`+strings.Join(s.Enum, `"`+l.or+`"`)+`"`)
}

// render returns the file of a template.
func render(name string, l language, d *description) ([]byte, error) {
	initials := regexp.MustCompile(`(Id|Ip|Os)(s?)([A-Z]|$)`)
	capital := regexp.MustCompile(`([a-z])([A-Z])`)
	parsed, err := template.New(name).Funcs(template.FuncMap{
		"snake": func(name string) string { return strings.ToLower(capital.ReplaceAllString(name, "${1}_${2}")) },
		"lower": func(name string) string { return strings.ToLower(name[:1]) + name[1:] },
		"upper": func(name string) string { // as Go spells initialisms
			name = strings.ToUpper(name[:1]) + name[1:]
			return initials.ReplaceAllStringFunc(name, func(word string) string { return strings.ToUpper(word[:2]) + word[2:] })
		},
		"all":     func(name string) string { return "All" + strings.TrimPrefix(name, "List") },
		"comment": func(text string) string { return "// " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n// ") },
		"result": func(s openapi.Schema) string { // objects by a pointer
			if s.Is("object") {
				return "*" + l.of(s, false)
			}
			return l.of(s, false)
		},
		"type":     func(s openapi.Schema) string { return l.of(s, false) },
		"optional": func(s openapi.Schema) string { return l.of(s, true) },
		"values":   l.values,
		"trim":     strings.TrimSpace,
	}).ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	out := new(bytes.Buffer)
	if err := parsed.Execute(out, d); err != nil {
		return nil, err
	}
	if strings.HasSuffix(l.file, ".go") {
		return format.Source(out.Bytes())
	}
	return out.Bytes(), nil
}
