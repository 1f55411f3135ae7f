package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// FreePort returns a free port of 127.0.0.1, for a server that listens later, or again after a
// pause. No other test gets it: it is below the range of ephemeral ports, and reserved until this
// process ends.
func FreePort(t testing.TB) int {
	t.Helper()
	const first, end = 10_000, 30_000
	var err error
	for range 100 {
		port := first + rand.N(end-first)
		if err = reserve(port); err == nil {
			return port
		}
	}
	t.Fatalf("no free port: %v", err)
	return 0
}

// FreeAddress returns the address of a [FreePort].
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", FreePort(t))
}

// reserve returns an error if another call of reserve has reserved the port, in this process or in
// one that still runs, or if the port is in use. The lock on a file lasts until the process ends,
// because nothing closes the file.
func reserve(port int) error {
	path := filepath.Join(os.TempDir(), fmt.Sprint("opsgate-port-", port))
	const flags = syscall.O_RDONLY | syscall.O_CLOEXEC
	file, err := syscall.Open(path, flags, 0)
	if errors.Is(err, os.ErrNotExist) {
		file, err = syscall.Open(path, flags|syscall.O_CREAT, 0o644) // for tests of other users too
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	err = syscall.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return l.Close()
		}
	}
	_ = syscall.Close(file)
	return fmt.Errorf("port %d: %w", port, err)
}
