package openapi

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Document is what generators and tests read of the OpenAPI document. It has no references: in
// their places are the components that they refer to, changed by what stands beside the reference.
// It has no allOf either, which openapigen merges.
type Document struct {
	Info       struct{ Title, Summary string }
	Tags       []struct{ Name, Description string }
	Operations []Operation `yaml:"-"` // by path in the order of the document, and then by method
	Components struct{ Schemas Ordered[Schema] }
}

// An Operation is an operation of the document.
type Operation struct {
	Method, Path         string `yaml:"-"` // the method in upper case
	ID                   string `yaml:"operationId"`
	Tags                 []string
	Summary, Description string
	Scope                string `yaml:"x-required-scope"` // empty if any valid token is accepted
	Task                 string `yaml:"x-task"`
	Deprecated           bool
	Parameters           []Parameter      // with those of its path
	RequestBody          Message          `yaml:"requestBody"`
	Responses            Ordered[Message] // by status
}

// Answer returns the schema of the response 200.
func (o Operation) Answer() Schema {
	if m := o.Responses.Get("200"); m != nil {
		return m.Content.JSON.Schema
	}
	return Schema{}
}

// A Parameter is a parameter of an operation.
type Parameter struct {
	Name, In, Description string
	Required              bool
	Schema                Schema
	Example               string
}

// A Message is the body of a request, or a response.
type Message struct {
	Description string
	Headers     Ordered[struct{ Description string }]
	Content     struct {
		JSON struct {
			Schema   Schema
			Examples Ordered[Example]
		} `yaml:"application/json"`
	}
}

// An Example is an example of a body.
type Example struct{ Value JSONText }

// A JSONText is a value as compact JSON, with its keys in their order.
type JSONText []byte

// UnmarshalYAML implements yaml.Unmarshaler.
func (j *JSONText) UnmarshalYAML(node *yaml.Node) error {
	var w bytes.Buffer
	err := writeNode(&w, node)
	*j = w.Bytes()
	return err
}

// Ordered is a mapping in the order of the document.
type Ordered[T any] []Entry[T]

// An Entry is a key of a mapping, with its value.
type Entry[T any] struct {
	Name  string
	Value T
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *Ordered[T]) UnmarshalYAML(node *yaml.Node) error {
	*o = make(Ordered[T], len(node.Content)/2)
	for i := range *o {
		(*o)[i].Name = node.Content[2*i].Value
		if err := node.Content[2*i+1].Decode(&(*o)[i].Value); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the value of a key, or nil.
func (o Ordered[T]) Get(name string) *T {
	for i := range o {
		if o[i].Name == name {
			return &o[i].Value
		}
	}
	return nil
}

// Read decodes an OpenAPI document.
func Read(text []byte) (*Document, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	inlined, err := inline(&root, &root)
	if err != nil {
		return nil, err
	}
	var d struct {
		Document `yaml:",inline"`
		Paths    Ordered[struct {
			Parameters []Parameter
			Operations map[string]Operation `yaml:",inline"` // by method
		}]
	}
	if err := inlined.Decode(&d); err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	for _, path := range d.Paths {
		for _, method := range slices.Sorted(maps.Keys(path.Value.Operations)) {
			o := path.Value.Operations[method]
			o.Method, o.Path = strings.ToUpper(method), path.Name
			o.Parameters = slices.Concat(path.Value.Parameters, o.Parameters)
			if o.Scope == "none" {
				o.Scope = ""
			}
			d.Operations = append(d.Operations, o)
		}
	}
	return &d.Document, nil
}

// inline returns a node without references. What stands beside a reference replaces what it refers
// to. The anchor of a node that was a reference is the name of the component.
func inline(root, node *yaml.Node) (*yaml.Node, error) {
	result, referred := *node, (*yaml.Node)(nil)
	result.Content = nil
	for i := 0; i < len(node.Content); i++ {
		if node.Kind == yaml.MappingNode && i%2 == 0 && node.Content[i].Value == "$ref" {
			i++
			name := node.Content[i].Value
			target := root.Content[0]
			for part := range strings.SplitSeq(strings.TrimPrefix(name, "#/"), "/") {
				target, result.Anchor = value(target, part), part
			}
			if target == nil {
				return nil, fmt.Errorf("there is no %s, to which the document refers", name)
			}
			var err error
			if referred, err = inline(root, target); err != nil {
				return nil, err
			}
			continue
		}
		inner, err := inline(root, node.Content[i])
		if err != nil {
			return nil, err
		}
		result.Content = append(result.Content, inner)
	}
	if referred != nil {
		for i := 0; i < len(referred.Content); i += 2 {
			if value(&result, referred.Content[i].Value) == nil {
				result.Content = append(result.Content, referred.Content[i:i+2]...)
			}
		}
	}
	return &result, nil
}

// value returns the value of a key, or nil.
func value(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; mapping != nil && i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}
