// Package command is opsdev: the reference backend with demo data and the gateway in front of it,
// in one process, with real gRPC between them.
//
// It is for trying the API and for tests. The demo tokens are public, because they are the same
// everywhere. So it listens on loopback by default and must not hold real data.
package command
