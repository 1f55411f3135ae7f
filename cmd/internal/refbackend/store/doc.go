// Package store keeps the reference backend's data in one SQLite file.
//
// It promises three things. A transaction that was committed survives the loss of the process and of the power
// (synchronous=FULL). A reader sees one moment of the data, and is never held up by the writer (WAL). A call whose context is
// done is given up at once, even where another process holds the file.
//
// The schema is in migrations, which [Open] applies; the queries are in queries, compiled by sqlc to the package query. What
// the data means is for the packages above to know.
package store
