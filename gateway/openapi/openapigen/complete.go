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

// complete adds to each operation the parameters, headers and error responses that follow from its
// method, path, scope and query parameters, and to each schema with known values their list. It
// merges each allOf. It returns all operations in the order of the document. It does not replace
// what the document declares.
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
	}
	for name, response := range entries(get(components, "responses")) {
		status, ok := statuses()[name]
		if !ok {
			return nil, fmt.Errorf("line %d: the status of the response %s is unknown", response.Line, name)
		}
		addHeaders(response, commonHeaders(status))
	}
	describeKnownValues(document)
	addExamples(document, get(components, "schemas"))
	for _, schema := range entries(get(components, "schemas")) {
		mergeAllOf(schema, get(components, "schemas"))
	}
	return operations, nil
}

// read reads the scope and the query parameters.
func (o *operation) read(components *yaml.Node) error {
	scope, description, responses := get(o.node, "x-required-scope"), get(o.node, "description"), get(o.node, "responses")
	if scope == nil || description == nil || get(responses, "200") == nil {
		return fmt.Errorf("line %d: %s %s: x-required-scope, description and the response 200 are required", o.node.Line,
			o.method, o.path)
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
		appendParameter(o.node, "IdempotencyKey")
	}
	responses := get(o.node, "responses")
	for _, name := range o.errors() {
		if status := statuses()[name]; get(responses, status) == nil {
			set(responses, status, reference("responses", name))
		}
	}
	sortKeys(responses)
	addHeaders(get(responses, "200"), o.headers())
}

// statuses returns the status of each response under components/responses.
func statuses() map[string]string {
	return map[string]string{
		"NotModified": "304", "Unauthorized": "401", "Forbidden": "403", "PlanRequired": "403", "NotFound": "404",
		"RequestTimeout": "408", "Conflict": "409", "PayloadTooLarge": "413", "UnsupportedMediaType": "415",
		"InvalidQuery": "422",
		"InvalidBody":  "422", "RateLimited": "429", "HeadersTooLarge": "431", "InternalError": "500",
		"NotImplemented": "501",
		"Unavailable":    "503", "Timeout": "504",
	}
}

// errors returns the component names of the responses other than 200.
func (o *operation) errors() []string {
	names := []string{"Unauthorized", "RateLimited", "HeadersTooLarge", "InternalError", "Unavailable", "Timeout"}
	if o.scope == noScope { // no service is called
		names = append(names, "PlanRequired")
	} else {
		names = append(names, "Forbidden", "NotImplemented")
	}
	if strings.Contains(o.path, "{id}") {
		names = append(names, "NotFound")
	}
	switch {
	case o.method == "post":
		names = append(names, "RequestTimeout", "Conflict", "PayloadTooLarge", "UnsupportedMediaType", "InvalidBody")
	case len(o.query) > 0:
		names = append(names, "InvalidQuery")
	}
	if o.method == "get" {
		names = append(names, "NotModified")
	}
	return names
}

// headers returns the names of the headers of a success.
func (o *operation) headers() []string {
	names := append(commonHeaders("200"), "Ignored-Parameters")
	if o.method == "post" {
		names = append(names, "Vary", "Idempotent-Replayed")
	} else {
		names = append(names, "ETag", "Vary")
	}
	if slices.Contains(o.query, "cursor") {
		names = append(names, "Link", "Cursor-Status")
	}
	return names
}

// commonHeaders returns the component names of the headers that every response with a status has.
func commonHeaders(status string) []string {
	names := []string{"X-Request-Id", "Cache-Control"}
	if status >= "400" {
		names = append(names, "Link-If-Error")
	}
	switch {
	case status == "401" || status == "431": // precede the rate limit decision
		return names
	case status >= "500": // may precede it
		return append(names, "RateLimit-Policy-If-Known", "RateLimit-If-Known")
	}
	return append(names, "RateLimit-Policy", "RateLimit")
}

// addHeaders adds references to headers before the response's own headers, except those that it
// declares itself.
func addHeaders(response *yaml.Node, components []string) {
	headers := get(response, "headers")
	if headers == nil {
		headers = &yaml.Node{Kind: yaml.MappingNode}
		response.Content = slices.Insert(response.Content, 2, key("headers"), headers) // after the description
	}
	own := headers.Content
	headers.Content = nil
	for _, component := range components {
		name, _, _ := strings.Cut(component, "-If-")
		if get(&yaml.Node{Kind: yaml.MappingNode, Content: own}, name) == nil {
			set(headers, name, reference("headers", component))
		}
	}
	headers.Content = append(headers.Content, own...)
}

// appendParameter adds a reference to a parameter at the end of an operation's parameters, which
// stand before its body and responses.
func appendParameter(operation *yaml.Node, name string) {
	parameters := get(operation, "parameters")
	if parameters == nil {
		parameters = &yaml.Node{Kind: yaml.SequenceNode}
		at := 0
		for ; at < len(operation.Content); at += 2 {
			if k := operation.Content[at].Value; k == "requestBody" || k == "responses" {
				break
			}
		}
		operation.Content = slices.Insert(operation.Content, at, key("parameters"), parameters)
	}
	parameters.Content = append(parameters.Content, reference("parameters", name))
}

func key(name string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name} }

// reference returns {$ref: '#/components/KIND/NAME'}.
func reference(kind, name string) *yaml.Node {
	target := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.SingleQuotedStyle,
		Value: "#/components/" + kind + "/" + name}
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
