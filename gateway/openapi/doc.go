// Package openapi embeds the OpenAPI document of the public API, and returns it as YAML and as JSON.
//
// openapi.yaml is generated from source.yaml by the command openapigen. Package openapitest validates responses against the document.
// Package apidocs renders the documentation from it.
package openapi
