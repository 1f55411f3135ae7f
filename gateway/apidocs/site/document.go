package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A document is what the pages show of the OpenAPI document. Objects keep their order, which is the order of the pages. Its schemas have no
// allOf, which openapigen merges, and no oneOf or anyOf.
type document struct {
	Info struct {
		Title, Summary string
	} `json:"info"`
	Tags       []tag             `json:"tags"`
	Paths      ordered[pathItem] `json:"paths"`
	Components struct {
		Parameters map[string]parameter `json:"parameters"`
		Headers    map[string]header    `json:"headers"`
		Responses  map[string]response  `json:"responses"`
		Schemas    ordered[schema]      `json:"schemas"`
		Examples   map[string]example   `json:"examples"`
		Bodies     map[string]body      `json:"requestBodies"`
	} `json:"components"`
}

type tag struct{ Name, Description string }

type pathItem struct {
	Parameters                    []parameter
	Get, Put, Post, Patch, Delete *operation
}

type operation struct {
	OperationID   string `json:"operationId"`
	Tags          []string
	Summary       string
	Description   string
	RequiredScope string `json:"x-required-scope"`
	Deprecated    bool
	Parameters    []parameter
	RequestBody   *body `json:"requestBody"`
	Responses     ordered[response]
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Required    bool
	Description string
	Schema      schema
	Example     any
}

type header struct {
	Ref         string `json:"$ref"`
	Description string
}

type body struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]media
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Headers     ordered[header]
	Content     map[string]media
}

type media struct {
	Schema   schema
	Example  json.RawMessage
	Examples ordered[example]
}

type example struct {
	Ref     string `json:"$ref"`
	Summary string
	Value   json.RawMessage
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 oneOrMore
	Format               string
	Description          string
	Enum                 []any
	Known                []any `json:"x-known-values"`
	Const                any
	Default              any
	Examples             []any
	Properties           ordered[schema]
	AdditionalProperties additional
	Required             []string
	Items                *schema
	Minimum, Maximum     *json.Number
	MinLength, MaxLength *int
	MinItems, MaxItems   *int
	Deprecated           bool
}

// oneOrMore is a string or an array of strings.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(o))
	}
	*o = make([]string, 1)
	return json.Unmarshal(data, &(*o)[0])
}

// additional is the value of additionalProperties: a schema, or false, or neither.
type additional struct {
	schema *schema
	none   bool
}

func (a *additional) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		a.none = string(data) == "false"
		return nil
	}
	a.schema = &schema{}
	return json.Unmarshal(data, a.schema)
}

type named[T any] struct {
	Name  string
	Value T
}

// ordered is a JSON object with its keys in their order.
type ordered[T any] []named[T]

func (o *ordered[T]) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value T
		if err := d.Decode(&value); err != nil {
			return err
		}
		*o = append(*o, named[T]{fmt.Sprint(key), value})
	}
	return nil
}

func (o ordered[T]) get(name string) (T, bool) {
	i := slices.IndexFunc(o, func(n named[T]) bool { return n.Name == name })
	if i < 0 {
		var none T
		return none, false
	}
	return o[i].Value, true
}

func readDocument(data []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(data, d); err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	return d, nil
}

// target returns the last element of a reference, for example Server of #/components/schemas/Server.
func target(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// deref returns the component that a value with a reference refers to, and any other value itself.
func deref[T any](v T, ref string, components map[string]T) T {
	if ref != "" {
		return components[target(ref)]
	}
	return v
}

// example returns the first example of a media type, nil if there is none.
func (d *document) example(m media) json.RawMessage {
	if len(m.Examples) > 0 {
		e := m.Examples[0].Value
		return deref(e, e.Ref, d.Components.Examples).Value
	}
	return m.Example
}

// resolve follows references. name is the component that the schema refers to, empty if there is none. A description or a default beside a
// reference replaces that of the component.
func (d *document) resolve(s schema) (resolved schema, name string) {
	for s.Ref != "" {
		name = target(s.Ref)
		component, _ := d.Components.Schemas.get(name)
		if s.Description != "" {
			component.Description = s.Description
		}
		if s.Default != nil {
			component.Default = s.Default
		}
		s = component
	}
	return s, name
}

// text returns the description without the list of known values that openapigen adds for generated clients: the pages show Known.
func (s schema) text() string {
	text, _, _ := strings.Cut(s.Description, " Known values: ")
	return strings.TrimSpace(text)
}
