// Package backendclient provides clients of the internal services and defines what a failed call
// means.
//
// [Dial] never waits for a service. Each unary call has a deadline a little earlier than its
// caller's. Each failed call returns an [*Error]. The error's code is Canceled if the caller
// canceled, and Internal if a response was too large (ResourceExhausted in gRPC). The number and
// size of the error details that a service sends are limited. Reads, and writes with an idempotency
// key, are retried; each unary method has a circuit breaker, and each service a limit of unary
// calls in flight.
//
// The gateway maps these errors to HTTP responses.
package backendclient
