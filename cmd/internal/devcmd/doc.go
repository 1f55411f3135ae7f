// Package devcmd is opsdev: the reference backend with demo data and the gateway in front of it, in one process, with real gRPC
// between them.
//
// It is for trying the API and for tests. The demo tokens are the same everywhere, so anybody who knows this repository has
// them: it listens on the loopback interface unless it is told otherwise, and must not hold anybody's data.
package devcmd
