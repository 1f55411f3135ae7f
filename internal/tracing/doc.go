// Package tracing records requests as OpenTelemetry traces and sends them to a collector over OTLP.
//
// A Tracer decides once per request whether it is recorded; a request that is not recorded costs a
// random number. The context of a recorded request carries its span, so that each attempt to call
// an internal service and each Redis command has a span, and services get the W3C headers. A
// collector that is slow or unreachable delays no request: spans that do not fit into the queue are
// dropped.
//
// Spans have names, ids, codes and times. They have no headers, queries, bodies, tokens or Redis
// keys.
package tracing
