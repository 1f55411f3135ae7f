// Package storetest reads and changes the database of a test like another process.
package storetest

import (
	"context"
	"database/sql"
	"path/filepath"

	"opsgate/cmd/internal/backend/store"
)

// A TB is a test, or one of the properties of rapid.
type TB interface {
	Helper()
	Fatal(arguments ...any)
	Cleanup(end func())
}

func must(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Open opens the database in a directory, with parameters of the driver, until the end of the test.
func Open(t TB, dir, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, store.FileName)+"?"+parameters)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// Column returns the only column of the rows that a query selects.
func Column[T any](t TB, db *sql.DB, query string, arguments ...any) (values []T) {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), query, arguments...)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var value T
		must(t, rows.Scan(&value))
		values = append(values, value)
	}
	must(t, rows.Err())
	return values
}

// Count returns how many rows there are of a table, which may have a condition.
func Count(t TB, db *sql.DB, table string) int {
	t.Helper()
	return Column[int](t, db, "SELECT count(*) FROM "+table)[0]
}
