package openapi

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// A Schema is a JSON schema without oneOf and anyOf. Its bounds and its default are texts as in the
// document, empty if there is none.
type Schema struct {
	Name                 string `yaml:"-"` // of the component, if the document refers to one here; else empty
	Type                 types
	Format, Description  string
	Default              string
	Enum                 []string
	Known                []string `yaml:"x-known-values"`
	Columns              []string `yaml:"x-columns"`
	Required             []string
	Properties           Ordered[Schema]
	AdditionalProperties *Schema `yaml:"additionalProperties"`
	Items                *Schema
	Minimum, Maximum     string
	MinLength            string `yaml:"minLength"`
	MaxLength            string `yaml:"maxLength"`
	MinItems             string `yaml:"minItems"`
	MaxItems             string `yaml:"maxItems"`
	Deprecated           bool
	Never                bool `yaml:"-"` // the schema is false: no value is valid
	node                 yaml.Node
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Schema) UnmarshalYAML(node *yaml.Node) error {
	type plain Schema
	*s = Schema{Name: node.Anchor, node: *node}
	if node.Kind == yaml.ScalarNode {
		s.Never = node.Value == "false"
		return nil
	}
	return node.Decode((*plain)(s))
}

// Decode decodes the whole schema into what to points to.
func (s Schema) Decode(to any) error { return s.node.Decode(to) }

// Is reports whether values may have a type.
func (s Schema) Is(name string) bool { return slices.Contains(s.Type, name) }

// Requires reports whether a property must be present.
func (s Schema) Requires(property string) bool { return slices.Contains(s.Required, property) }

// types is a string or an array of strings.
type types []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *types) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.SequenceNode {
		return node.Decode((*[]string)(t))
	}
	*t = types{node.Value}
	return nil
}
