package openapitest

// closeSchemas closes every object schema of the document, and makes enums of the sets of the
// gateway's own values.
func closeSchemas(root map[string]any) {
	walkSchemas(root, func(schema map[string]any) {
		_, decided := schema["additionalProperties"]
		if _, object := schema["properties"].(map[string]any); object && !decided {
			schema["additionalProperties"] = false
		}
	})
	for _, path := range ownValues() {
		var node any = root
		for _, name := range path {
			mapping, _ := node.(map[string]any)
			node = mapping[name]
		}
		if schema, ok := node.(map[string]any); ok {
			schema["enum"] = schema["x-known-values"]
		}
	}
}

// ownValues returns the paths of the schemas with known values that the gateway chooses. Values of
// the others come from services, which may add some.
func ownValues() [][]string {
	return [][]string{
		{"components", "schemas", "Scope"},
		{"components", "schemas", "ErrorBody", "properties", "code"},
		{"components", "schemas", "ForbiddenDetails", "properties", "requiredPlan"},
	}
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
