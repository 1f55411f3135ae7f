package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"modernc.org/sqlite"
)

// A FullError is the error of a write that the file system has no space for. Reads work.
type FullError struct {
	Path string // of the database
	err  error
}

// Error names the file, and says what to do.
func (e *FullError) Error() string {
	return fmt.Sprintf("no space to write to %s: free space on its file system, then writes work again; reads do now: %v", e.Path, e.err)
}

// Unwrap returns the error of SQLite.
func (e *FullError) Unwrap() error { return e.err }

// withoutSpace returns a *[FullError] for an error of SQLite that space is missing, and other errors unchanged.
func (s *Store) withoutSpace(err error) error {
	const sqliteFull = 13
	if failure, ok := errors.AsType[*sqlite.Error](err); ok && failure.Code()&primaryCode == sqliteFull {
		return &FullError{Path: filepath.Join(s.dir, FileName), err: err}
	}
	return err
}
