package openapitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

const schemaRef = "#/components/schemas/"

// closeSchemas returns the document with every object schema closed. It merges the parts of an allOf first, because each closed part
// would reject the properties of the others.
func closeSchemas(document []byte) ([]byte, error) {
	var root map[string]any
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("the document is not JSON: %w", err)
	}
	components, _ := root["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	walkSchemas(root, func(schema map[string]any) { flatten(schema, schemas) })
	walkSchemas(root, func(schema map[string]any) {
		_, decided := schema["additionalProperties"]
		if _, object := schema["properties"].(map[string]any); object && !decided {
			schema["additionalProperties"] = false
		}
	})
	return json.Marshal(root)
}

// walkSchemas calls visit for every object outside of examples, which are values and not schemas.
func walkSchemas(node any, visit func(map[string]any)) {
	switch node := node.(type) {
	case []any:
		for _, element := range node {
			walkSchemas(element, visit)
		}
	case map[string]any:
		visit(node)
		for key, value := range node {
			if key != "examples" && key != "example" {
				walkSchemas(value, visit)
			}
		}
	}
}

// flatten replaces allOf by the properties of its parts. A property of a later part replaces that of an earlier one.
func flatten(schema, schemas map[string]any) {
	parts, ok := schema["allOf"].([]any)
	if !ok {
		return
	}
	delete(schema, "allOf")
	properties, required := map[string]any{}, []any{}
	for _, part := range parts {
		part, _ := part.(map[string]any)
		if ref, _ := part["$ref"].(string); ref != "" {
			part, _ = schemas[strings.TrimPrefix(ref, schemaRef)].(map[string]any)
		}
		flatten(part, schemas)
		of, _ := part["properties"].(map[string]any)
		maps.Copy(properties, of)
		names, _ := part["required"].([]any)
		required = append(required, names...)
	}
	schema["type"], schema["properties"], schema["required"] = "object", properties, required
}
