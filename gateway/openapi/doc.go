// Package openapi embeds the OpenAPI document of the public API, returns it as YAML and as JSON,
// and decodes it for generators and tests.
//
// openapi.yaml is generated from source.yaml by the command openapigen. Package openapitest
// validates responses against the document. Package apidocs renders the documentation from it.
package openapi

// The document first, then what is made of it.
//go:generate go -C ../.. run ./gateway/openapi/openapigen
//go:generate go -C ../.. run ./gateway/openapi/operationsgen
//go:generate go -C ../.. run ./gateway/apidocs/apidocsgen
