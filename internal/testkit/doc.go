// Package testkit is what the tests of all packages share: checks, waiting, a buffer for logs, and
// programs that run as processes. It lies below backendclient because all other packages may import
// from there.
package testkit
