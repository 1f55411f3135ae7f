// Package apiclient is the client of the public API that opsctl uses. `make generate` generates all of it but the type Operation from the
// OpenAPI document: client.gen.go by oapi-codegen, with oapi-codegen.yaml, and operations.gen.go by operationsgen.
//
// A field that may be null is a pointer. Unknown fields of answers are ignored, and an unknown value of an enum is kept as it is.
package apiclient
