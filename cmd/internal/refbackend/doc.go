// Package refbackend is the reference operations backend: the five internal services of the contract in proto, over real gRPC
// and one SQLite file.
//
// It is what the contract means, in code: isolation between teams, orders, cursors that name a row, the states of an
// incident, writes that are one transaction with their audit entry and the notifications they owe, idempotency keys that
// outlive a restart, rollups computed from raw points, revocations as a stream that can be resumed. Nothing in it is canned.
// It serves development and tests, and whoever implements the contract elsewhere may read it beside the .proto files.
//
// It never sees an API token: it keeps and is asked for SHA-256 hashes, and those who create a token mint it themselves. It
// delivers no notifications either; they wait in an outbox.
package refbackend
