package openapitest

import (
	"encoding/json"
	"fmt"
	"testing"

	"opsgate/gateway/openapi"
)

// NewLoose returns a Validator to which a number may be any number, a list may have any length, and an id or a colour may be any
// text. What services say of these goes to clients as they say it, so an answer of a service that breaks its contract is to be
// held against no more than this.
func NewLoose(t testing.TB) *Validator {
	t.Helper()
	loose, err := loosen(openapi.JSON())
	if err != nil {
		t.Fatalf("loosening the API's description: %v", err)
	}
	v, err := newValidator(loose)
	if err != nil {
		t.Fatalf("reading the API's description: %v", err)
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
