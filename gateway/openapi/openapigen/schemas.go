package main

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const schemaRef = "#/components/schemas/"

// describeKnownValues adds the values of x-known-values to the description of each schema that has
// them, and the first one as its example. Such a schema has no enum, because clients generated from
// an enum fail on a new value.
func describeKnownValues(node *yaml.Node) {
	for _, child := range node.Content {
		describeKnownValues(child)
	}
	values, description := sequence(get(node, "x-known-values")), get(node, "description")
	if len(values) == 0 || description == nil {
		return
	}
	var list []string
	for _, v := range values {
		list = append(list, "`"+v.Value+"`")
	}
	description.Value = strings.TrimSuffix(description.Value, "\n") + " Known values: " + strings.Join(list, ", ") +
		". Values may be added."
	if get(node, "examples") == nil {
		set(node, "examples", &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: values[:1]})
	}
}

// addExamples gives each parameter without an example the first one of its schema. Programs that
// import the document send the examples of parameters, and random texts without them.
func addExamples(node, schemas *yaml.Node) {
	for _, child := range node.Content {
		addExamples(child, schemas)
	}
	schema := get(node, "schema")
	if get(node, "in") == nil || schema == nil || get(node, "example") != nil {
		return
	}
	if ref := get(schema, "$ref"); ref != nil && get(schema, "examples") == nil {
		schema = get(schemas, strings.TrimPrefix(ref.Value, schemaRef))
	}
	if examples := sequence(get(schema, "examples")); len(examples) > 0 {
		set(node, "example", examples[0])
	}
}

// mergeAllOf replaces the allOf of a schema by the properties of its parts. Generators make an
// anonymous type of each part otherwise.
func mergeAllOf(schema, schemas *yaml.Node) {
	parts := get(schema, "allOf")
	if parts == nil {
		return
	}
	required, properties := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}, &yaml.Node{Kind: yaml.MappingNode}
	for _, part := range parts.Content {
		if ref := get(part, "$ref"); ref != nil {
			part = get(schemas, strings.TrimPrefix(ref.Value, schemaRef))
			mergeAllOf(part, schemas)
		}
		required.Content = append(required.Content, sequence(get(part, "required"))...)
		properties.Content = append(properties.Content, sequence(get(part, "properties"))...)
	}
	at := slices.Index(schema.Content, parts) - 1
	schema.Content = slices.Replace(schema.Content, at, at+2,
		key("type"), key("object"), key("required"), required, key("properties"), properties)
}
