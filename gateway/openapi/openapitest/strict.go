package openapitest

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"opsgate/gateway/openapi"
)

// strict is the Validator of NewStrict.
var strict = sync.OnceValues(func() (*Validator, error) {
	var root map[string]any
	if err := json.Unmarshal(openapi.JSON(), &root); err != nil {
		return nil, fmt.Errorf("the document is not JSON: %w", err)
	}
	walkSchemas(root, func(schema map[string]any) {
		if known, open := schema["x-known-values"]; open {
			schema["enum"] = known
		}
	})
	document, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	return newValidator(document)
})

// NewStrict returns a Validator that also refuses values of open sets that the document does not list. The demo data has only listed ones.
func NewStrict(t testing.TB) *Validator {
	t.Helper()
	v, err := strict()
	if err != nil {
		t.Fatalf("reading the OpenAPI document: %v", err)
	}
	return v
}
