package openapitest

import (
	"sync"
	"testing"

	"opsgate/gateway/openapi"
)

// strict is the Validator of NewStrict.
var strict = sync.OnceValues(func() (*Validator, error) {
	return newValidator(openapi.JSON(), func(root map[string]any) {
		walkSchemas(root, func(schema map[string]any) {
			if known, open := schema["x-known-values"]; open {
				schema["enum"] = known
			}
		})
	})
})

// NewStrict returns a Validator that also refuses values of open sets that the document does not
// list. The demo data has only listed ones.
func NewStrict(t testing.TB) *Validator {
	t.Helper()
	return loaded(t, strict)
}
