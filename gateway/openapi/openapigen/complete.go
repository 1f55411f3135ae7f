package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// noScope is the x-required-scope of an operation that any valid token may call.
const noScope = "none"

// An operation is one operation of the document.
type operation struct {
	method, path string   // method in lower case
	scope        string   // noScope for none
	query        []string // names of the query parameters
	node         *yaml.Node
}

// complete adds to each operation the parameters, headers and error responses that follow from its method, path, scope and
// query parameters, and returns all operations in the order of the document. It does not replace what the operation declares.
func complete(document *yaml.Node) ([]operation, error) {
	var operations []operation
	components := get(document, "components")
	for path, item := range entries(get(document, "paths")) {
		for method, node := range entries(item) {
			if method == "parameters" {
				continue
			}
			o := operation{method: method, path: path, node: node}
			if err := o.read(components); err != nil {
				return nil, err
			}
			o.complete()
			operations = append(operations, o)
		}
		appendParameter(item, "RequestId", true)
	}
	return operations, nil
}

// read reads the scope and the query parameters.
func (o *operation) read(components *yaml.Node) error {
	scope, description, responses := get(o.node, "x-required-scope"), get(o.node, "description"), get(o.node, "responses")
	if scope == nil || description == nil || get(responses, "200") == nil {
		return fmt.Errorf("line %d: %s %s: x-required-scope, description and the response 200 are required", o.node.Line, o.method, o.path)
	}
	o.scope = scope.Value
	for _, p := range sequence(get(o.node, "parameters")) {
		if ref := get(p, "$ref"); ref != nil {
			p = get(get(components, "parameters"), strings.TrimPrefix(ref.Value, "#/components/parameters/"))
		}
		if name, in := get(p, "name"), get(p, "in"); name != nil && in != nil && in.Value == "query" {
			o.query = append(o.query, name.Value)
		}
	}
	return nil
}

// complete adds parameters, responses and headers, and the scope to the description.
func (o *operation) complete() {
	description := get(o.node, "description")
	if o.scope == noScope {
		description.Value += "\nNeeds no scope: any valid token is accepted.\n"
	} else {
		description.Value += "\nNeeds the scope `" + o.scope + "`.\n"
	}
	if o.method == "post" {
		appendParameter(o.node, "IdempotencyKey", false)
	} else {
		appendParameter(o.node, "IfNoneMatch", false)
	}
	responses := get(o.node, "responses")
	for status, name := range o.errors() {
		if get(responses, status) == nil {
			set(responses, status, reference("responses", name))
		}
	}
	sortKeys(responses)
	o.addHeaders(get(responses, "200"))
}

// errors returns the component names of the responses other than 200, by status.
func (o *operation) errors() map[string]string {
	responses := map[string]string{
		"401": "Unauthorized", "403": "Forbidden", "429": "RateLimited", "431": "HeadersTooLarge", "500": "InternalError",
		"501": "NotImplemented", "503": "Unavailable", "504": "Timeout",
	}
	if o.scope == noScope { // no service is called
		responses["403"] = "PlanRequired"
		delete(responses, "501")
	}
	if strings.Contains(o.path, "{id}") {
		responses["404"] = "NotFound"
	}
	switch {
	case o.method == "post":
		responses["408"], responses["409"], responses["413"] = "RequestTimeout", "Conflict", "PayloadTooLarge"
		responses["415"], responses["422"] = "UnsupportedMediaType", "InvalidBody"
	case len(o.query) > 0:
		responses["422"] = "InvalidQuery"
	}
	if o.method == "get" {
		responses["304"] = "NotModified"
	}
	return responses
}

// addHeaders adds the headers of a success, after its description.
func (o *operation) addHeaders(success *yaml.Node) {
	names := []string{"X-Request-Id", "Cache-Control", "RateLimit-Policy", "RateLimit"}
	if o.method == "post" {
		names = append(names, "Vary", "Idempotent-Replayed")
	} else {
		names = append(names, "ETag", "Vary")
	}
	if slices.Contains(o.query, "cursor") {
		names = append(names, "Link", "Cursor-Status")
	}
	headers := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range names {
		set(headers, name, reference("headers", name))
	}
	if get(success, "headers") == nil {
		success.Content = slices.Insert(success.Content, 2, key("headers"), headers)
	}
}

// appendParameter adds a reference to a parameter at the end of a node's parameters. A node without parameters gets them as its
// first entry, or before its request body and responses.
func appendParameter(node *yaml.Node, name string, first bool) {
	parameters := get(node, "parameters")
	if parameters == nil {
		parameters = &yaml.Node{Kind: yaml.SequenceNode}
		at := 0
		for ; !first && at < len(node.Content); at += 2 {
			if k := node.Content[at].Value; k == "requestBody" || k == "responses" {
				break
			}
		}
		node.Content = slices.Insert(node.Content, at, key("parameters"), parameters)
	}
	parameters.Content = append(parameters.Content, reference("parameters", name))
}

func key(name string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name} }

// reference returns {$ref: '#/components/KIND/NAME'}.
func reference(kind, name string) *yaml.Node {
	target := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.SingleQuotedStyle, Value: "#/components/" + kind + "/" + name}
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key("$ref"), target}}
}

// get returns the value of a key, or nil.
func get(mapping *yaml.Node, name string) *yaml.Node {
	for k, v := range entries(mapping) {
		if k == name {
			return v
		}
	}
	return nil
}

// entries iterates over a mapping. A nil node or one of another kind has no entries.
func entries(mapping *yaml.Node) func(yield func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if mapping == nil || mapping.Kind != yaml.MappingNode {
			return
		}
		content := slices.Clone(mapping.Content)
		for i := 0; i < len(content); i += 2 {
			if !yield(content[i].Value, content[i+1]) {
				return
			}
		}
	}
}

func sequence(node *yaml.Node) []*yaml.Node {
	if node == nil {
		return nil
	}
	return node.Content
}

func set(mapping *yaml.Node, name string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, key(name), value)
}

func sortKeys(mapping *yaml.Node) {
	type entry struct{ key, value *yaml.Node }
	var all []entry
	for i := 0; i < len(mapping.Content); i += 2 {
		all = append(all, entry{mapping.Content[i], mapping.Content[i+1]})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.key.Value, b.key.Value) })
	mapping.Content = mapping.Content[:0]
	for _, e := range all {
		mapping.Content = append(mapping.Content, e.key, e.value)
	}
}
