package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// private is the mode of the files of a database: the hashes of tokens and the data of all teams are in them.
const private fs.FileMode = 0o600

// protect makes the database file if it does not exist, and takes access to it from all but its owner, whatever the umask is. SQLite gives
// the files that it keeps beside the database the mode of that.
func protect(path string) error {
	if err := create(path); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // the latter are there while another process has the database
		err := restrict(path + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restrict access to the database: %w", err)
		}
	}
	return nil
}

// create makes an empty file, unless it exists. A file is closed before it gets its name: closing one drops every lock that the process
// holds on it, those of a database that is already open in this process too.
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

func restrict(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() == private {
		return err
	}
	return os.Chmod(path, private)
}
