package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// privateMode is the mode of the files of a database, which contain the hashes of tokens and the
// data of all teams.
const privateMode fs.FileMode = 0o600

// protect creates the database file if it does not exist, and sets its mode to privateMode,
// regardless of the umask. SQLite creates its other files with the mode of the database.
func protect(path string) error {
	if err := create(path); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // the last two exist while the database is open
		err := restrict(path + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restrict access to the database: %w", err)
		}
	}
	return nil
}

// create creates an empty file, unless it exists. It closes the file before it gives it its name:
// closing a file releases all locks of the process on it, including those of a database that this
// process has already opened.
func create(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), FileName+".*.new") // of mode 0600
	if err != nil {
		return err
	}
	err = errors.Join(file.Close(), os.Link(file.Name(), path))
	if errors.Is(err, fs.ErrExist) { // another process was faster
		err = nil
	}
	return errors.Join(err, os.Remove(file.Name()))
}

// Size returns the bytes of the database's file and of its write-ahead log.
func (s *Store) Size() (bytes int64, err error) {
	path := filepath.Join(s.dir, FileName)
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			return 0, fmt.Errorf("measure the database: %w", err)
		}
		bytes += info.Size()
	}
	return bytes, nil
}

func restrict(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() == privateMode {
		return err
	}
	return os.Chmod(path, privateMode)
}
