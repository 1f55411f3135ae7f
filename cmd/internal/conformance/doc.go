// Package conformance checks implementations of the internal services against the contract in proto. It calls them as the gateway
// does, and reports for each method which sentences of the contract they keep.
//
// A check is a row of a table: a stable name, a sentence of the contract, and a function. The function uses the fixtures of two teams
// and the responses of the services. It needs no access to their data, so the implementation may be in any language. A check without
// the data that it needs is skipped with a reason.
//
// Some sentences cannot be checked from outside: that a write and its notifications are one transaction, that idempotency keys survive
// a restart and expire after a day, that a revocation stream is complete.
package conformance
