package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

//go:embed templates
var templates embed.FS

// description is what the templates of the client packages get.
type description struct {
	Types, Inputs []schema // objects and enumerations; those only of requests
	Calls         []call
	texts         map[string]string // descriptions of schemas that are not in the lists yet, by name
}

// call is an operation of a client.
type call struct {
	operation
	Name         string
	Query        []input
	Body, Answer schema
	Item         *schema // of a page; nil for other answers
}

// input is a query parameter.
type input struct {
	Name   string
	Schema schema
}

// IsSize reports whether the parameter is the number of items of a page.
func (i input) IsSize() bool { return i.Name == "limit" || i.Name == "pageSize" }

// HasID reports whether the path has the parameter id, the only one of any path.
func (c call) HasID() bool { return strings.Contains(c.Path, "{id}") }

// Filters returns the query parameters that all pages share.
func (c call) Filters() []input {
	return slices.DeleteFunc(slices.Clone(c.Query), func(i input) bool { return i.Name == "cursor" || i.Name == "page" })
}

// describe reads the OpenAPI document.
func describe(text []byte) (*description, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	d := &description{texts: map[string]string{}}
	schemas := target(&root, "#/components/schemas").Content
	for i := 0; i < len(schemas); i += 2 {
		named := &yaml.Node{Kind: yaml.ScalarNode, Value: "x-name"}
		if text := value(schemas[i+1], "description"); text != nil {
			d.texts[schemas[i].Value] = text.Value
		}
		schemas[i+1].Content = append(schemas[i+1].Content, named, schemas[i])
	}
	all, err := operations(&root)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		c := call{operation: o, Name: strings.TrimPrefix(o.OperationID, "v1")}
		if err := c.read(); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Method, o.Path, err)
		}
		d.Calls = append(d.Calls, c)
		d.Types = d.add(d.Types, c.Answer)
		for _, q := range c.Query {
			d.Types = d.add(d.Types, q.Schema)
		}
	}
	for _, c := range d.Calls {
		d.Inputs = d.add(d.Inputs, c.Body)
	}
	return d, nil
}

// read decodes the schemas of the operation.
func (c *call) read() error {
	for _, p := range c.Parameters {
		if p.In != "query" {
			continue
		}
		in := input{Name: p.Name}
		if err := p.Schema.Decode(&in.Schema); err != nil {
			return err
		}
		c.Query = append(c.Query, in)
	}
	if c.Method != http.MethodGet {
		if err := c.RequestBody.json(&c.Body); err != nil {
			return err
		}
	}
	if err := c.Responses["200"].json(&c.Answer); err != nil {
		return err
	}
	if len(c.Filters()) < len(c.Query) {
		c.Item = c.Answer.property("items").Items
	}
	return nil
}

// add appends the named objects and enumerations of a schema that are new.
func (d *description) add(list []schema, s schema) []schema {
	for _, p := range s.Properties {
		list = d.add(list, p.Value)
	}
	if s.Items != nil {
		list = d.add(list, *s.Items)
	}
	if text, isNew := d.texts[s.Name]; isNew && s.isType() {
		delete(d.texts, s.Name)
		s.Description = text
		list = append(list, s)
	}
	return list
}

// isType reports whether clients have a type for the schema.
func (s schema) isType() bool { return s.Name != "" && (s.is("object") || s.Enum != nil) }

// Needs reports whether a property is required.
func (s schema) Needs(property string) bool { return slices.Contains(s.Required, property) }

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
			"tools/clients/python/opsgate_client/operations.py",
			"str", "datetime", "int", "float", "bool", "list[%s]", "%s | None", "Literal[%s]", ", ",
		},
		"typescript.tmpl": {
			"tools/clients/typescript/opsgate-client/operations.d.ts",
			"string", "string", "number", "number", "boolean", "%s[]", "%s | null", "%s", " | ",
		},
		"go.tmpl": {
			file: "tools/clients/go/client/operations.gen.go",
			text: "string", time: "time.Time", whole: "int", number: "float64", boolean: "bool", list: "[]%s", null: "*%s",
		},
		"javascript.tmpl": {file: "tools/clients/typescript/opsgate-client/operations.js"},
	}
}

// of returns the type of a schema, without null if it is optional.
func (l language) of(s schema, optional bool) string {
	var t string
	switch {
	case s.isType():
		t = s.Name
	case s.Format == "date-time":
		t = l.time
	case s.is("array"):
		t = fmt.Sprintf(l.list, l.of(*s.Items, false))
	case s.is("integer"):
		t = l.whole
	case s.is("number"):
		t = l.number
	case s.is("boolean"):
		t = l.boolean
	default:
		t = l.values(s)
	}
	if s.is("null") && !optional {
		return fmt.Sprintf(l.null, t)
	}
	return t
}

// values returns the type of a text.
func (l language) values(s schema) string {
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
		"result": func(s schema) string { // objects by a pointer
			if s.is("object") {
				return "*" + l.of(s, false)
			}
			return l.of(s, false)
		},
		"type":     func(s schema) string { return l.of(s, false) },
		"optional": func(s schema) string { return l.of(s, true) },
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
