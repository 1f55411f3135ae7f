package testkit

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of 4 MiB until the end of the test, and returns its folder.
// Without the right to mount, it skips the test.
func SmallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); errors.Is(err, os.ErrPermission) {
		SkipWithout(t, "root", "it mounts a file system")
	} else {
		Must(t, err)
	}
	t.Cleanup(func() { Must(t, syscall.Unmount(dir, 0)) })
	return dir
}

// Fill writes to a new file until its disk is full.
func Fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	Must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	Must(t, f.Close())
}
