package openapitest

import (
	"encoding/json"
	"fmt"
	"testing"

	"opsgate/gateway/openapi"
)

// NewLoose returns a Validator without bounds of numbers and lists and without patterns of IDs and colours. The gateway does not check
// these values, so its responses violate them if a service does.
func NewLoose(t testing.TB) *Validator {
	t.Helper()
	loose, err := loosen(openapi.JSON())
	if err != nil {
		t.Fatalf("loosening the OpenAPI document: %v", err)
	}
	v, err := newValidator(loose)
	if err != nil {
		t.Fatalf("reading the OpenAPI document: %v", err)
	}
	return v
}

func loosen(document []byte) ([]byte, error) {
	var root map[string]any
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, fmt.Errorf("the document is not JSON: %w", err)
	}
	components, _ := root["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	walkSchemas(schemas, func(schema map[string]any) {
		for _, bound := range []string{"minimum", "maximum", "maxItems"} {
			delete(schema, bound)
		}
	})
	for _, name := range []string{"Id", "IdOrNull", "Color"} {
		schema, _ := schemas[name].(map[string]any)
		delete(schema, "pattern")
		delete(schema, "format")
	}
	return json.Marshal(root)
}
