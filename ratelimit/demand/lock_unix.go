//go:build unix

package demand

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock locks the file against recorders of other processes, and makes it readable for its owner alone.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%s: another process writes to it", f.Name())
	}
	if err != nil && !errors.Is(err, syscall.ENOTSUP) { // not every file system has locks
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f.Chmod(0o600)
}
