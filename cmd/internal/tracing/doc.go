// Package tracing records requests as OpenTelemetry traces and sends them to a collector over OTLP.
//
// Whether a request is recorded is decided once, where it comes in, and costs a random number where it is not. What belongs to one
// that is goes with its context: a span for each attempt to call an internal service and for each command to Redis, and the W3C
// header that lets a service go on with the trace. A collector that is slow or away costs no request anything: what does not fit
// into the queue is lost, and counted.
//
// Spans hold names, ids, codes and times. Headers, queries, bodies, tokens and keys of Redis never get here.
package tracing
