// Package tracingtest has what a trace passes in tests: a collector that takes spans by OTLP, over
// gRPC and HTTP, on real sockets, and a relay before an internal service that notes which span each
// call says to come from.
package tracingtest
