// Package store keeps the reference backend's data in one SQLite file.
//
// It guarantees that a committed transaction survives the loss of the process and of the power
// (synchronous=FULL); that a read transaction has one snapshot of the data and does not wait for
// writers (WAL); and that a call ends when its context does, even while another process has locked
// the file.
//
// The schema is in migrations, which [Open] applies. The queries are in queries; sqlc compiles them
// to the package query.
package store

// Without cgo, because sqlc is slow to build with it: it has a parser in C.
//go:generate env CGO_ENABLED=0 go tool -modfile=../../../../tools/go.mod sqlc generate
