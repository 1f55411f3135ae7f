// Package apiclient describes the operations of the public API for a client that offers all of
// them: what each one takes, and what it returns. The table is generated from the OpenAPI document
// by `make generate`.
package apiclient
