package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"modernc.org/sqlite"
)

// A FileError is a failure of the database's file that only an operator can repair.
type FileError struct {
	Path string // of the database
	// Full means that the file system has no space, and Damaged that the file is not a valid
	// database. Reads work on a full file system.
	Full, Damaged bool

	problem, next string
	err           error
}

// Error names the file and the next step.
func (e *FileError) Error() string {
	return fmt.Sprintf("%s %s: %s: %v", e.problem, e.Path, e.next, e.err)
}

// Unwrap returns the error of SQLite.
func (e *FileError) Unwrap() error { return e.err }

// fileErrors returns what codes of SQLite about its file mean, primary ones and extended ones with
// another meaning. https://sqlite.org/rescode.html
func fileErrors() map[int]FileError {
	full := FileError{
		Full: true, problem: "no space to write to",
		next: "free space on its file system; a server that runs reads meanwhile, and writes again then",
	}
	damaged := FileError{Damaged: true, problem: "damaged database",
		next: "stop all servers on it, and restore the last backup"}
	return map[int]FileError{
		8: {problem: "no right to write to", next: "give the user of this program the rights to the file and its directory"},
		10: {
			problem: "the file system failed to read or write",
			next:    "look for errors of the disk in the system's log, then run opsbackend verify",
		},
		11: damaged,
		13: full,
		14: {problem: "cannot open",
			next: "check that the directory exists and that the user of this program may read and write in it"},
		26: damaged,

		ioErrShmSize: full, // the memory that processes share is a file
	}
}

// ioErrShmSize is the extended code for a file of shared memory that cannot be made larger, as when
// a database is opened on a full disk.
const ioErrShmSize = 10 | 19<<8

// withFile returns a *[FileError] for an error of SQLite about the file, and other errors
// unchanged.
func (s *Store) withFile(err error) error {
	failure, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	found, ok := fileErrors()[failure.Code()]
	if !ok {
		found, ok = fileErrors()[failure.Code()&primaryCode]
	}
	if !ok {
		return err
	}
	found.Path, found.err = filepath.Join(s.dir, FileName), err
	return &found
}
