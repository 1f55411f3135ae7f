// Package service is the reference operations backend: the five internal services of the contract
// in proto, over real gRPC and one SQLite file.
//
// It implements the whole contract: isolation between teams, order, cursors that name a row, the
// states of an incident, writes in one transaction with their audit entry and notifications,
// idempotency keys that survive a restart, hourly means of metrics that stay the same when the raw
// points are deleted, and revocation streams that can be resumed. It takes the results of probes,
// and applies the rules of monitors to them. It serves development and tests, and is an example for
// other implementations.
//
// It stores and receives SHA-256 hashes of API tokens, never a token. It writes notifications into
// an outbox, from which package delivery sends them.
package service
