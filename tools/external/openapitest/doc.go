// Package openapitest tests the checks of the OpenAPI document: tools/openapi-gate.sh and
// tools/openapi-lint.sh.
package openapitest
