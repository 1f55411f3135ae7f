// Package openapi embeds the OpenAPI document of the public API and serves it as YAML, as JSON and as a documentation page.
//
// openapi.yaml is generated from source.yaml by the command openapigen. The documentation page loads scripts, styles and data only from
// the host that serves it, without inline code, so that a strict Content-Security-Policy holds.
//
// Package openapitest validates responses against the document. The gateway adds status, caching and request IDs.
package openapi
