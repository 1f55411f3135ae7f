// Package command is the command line client of the public API: a command for each operation, and a
// server of the Model Context Protocol with a tool for each operation that the token may use.
//
// One transport sends every request. It repeats a request after a rate limit, an unavailable
// service or a lost connection, within a bound; a write has the same idempotency key each time. It
// follows no redirect, so that the token reaches only the configured host, and removes the token
// from answers, so that no output contains it.
package command
