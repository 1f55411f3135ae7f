// Package openapitest validates HTTP exchanges against the OpenAPI document, in tests.
//
// The published schemas are open, because clients must accept new fields. Here they are closed: a
// property, status or header that the document does not list is an error, as is a request that was
// accepted although the document forbids it.
package openapitest
