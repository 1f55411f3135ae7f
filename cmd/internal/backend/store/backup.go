package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

// Backup writes a copy of the database, as of one moment, to a new file that only its owner can
// access. Reads and writes continue meanwhile. The copy is another installation: positions in the
// revocation stream of the original are not valid in it. If Backup does not end, path does not
// exist, and a file path.partial may be left.
func (s *Store) Backup(ctx context.Context, path string) (err error) {
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("find the backup's directory: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return existsError(path)
	}
	partial := path + ".partial"
	file, err := os.OpenFile(partial, os.O_RDWR|os.O_CREATE|os.O_EXCL, privateMode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("another backup is in progress, or was interrupted: in that case remove %s", partial)
	}
	if err != nil {
		return fmt.Errorf("create the backup: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(partial)) }()
	if _, err := s.readers.ExecContext(ctx, "VACUUM INTO ?", partial); err != nil {
		return fmt.Errorf("write the backup %s: %w", partial, s.withFile(err))
	}
	if err := renameInstallation(ctx, partial); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync the backup: %w", err)
	}
	if err := os.Link(partial, path); errors.Is(err, fs.ErrExist) {
		return existsError(path)
	} else if err != nil {
		return linkError(err)
	}
	return syncDir(filepath.Dir(path))
}

func existsError(path string) error {
	return fmt.Errorf("%s exists, and a backup replaces no file: name another one", path)
}

// linkError adds the next step to an error of [os.Link] on file systems without hard links, as FAT
// and many of networks.
func linkError(err error) error {
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("name the backup: its file system has no hard links: write the backup to another, and copy it: %w",
			err)
	}
	return fmt.Errorf("name the backup: %w", err)
}

// syncDir makes the names in a directory survive the loss of the power.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the backup's directory: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync the backup's directory: %w", err)
	}
	return nil
}

// renameInstallation gives a copy of the database an id of its own.
func renameInstallation(ctx context.Context, path string) error {
	copied, err := openPool(path, 1, url.Values{})
	if err != nil {
		return err
	}
	_, err = copied.ExecContext(ctx, "UPDATE installation SET id = lower(hex(randomblob(8)))")
	if err = errors.Join(err, copied.Close()); err != nil {
		return fmt.Errorf("write the id of the backup: %w", err)
	}
	return nil
}
