//go:build unix

package store_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"opsgate/cmd/internal/backend/store"
	"opsgate/internal/testkit"
)

// modes returns the modes of the files of an open database.
func modes(t *testing.T, dir string) map[string]os.FileMode {
	t.Helper()
	list, err := os.ReadDir(dir)
	testkit.Must(t, err)
	modes := map[string]os.FileMode{}
	for _, entry := range list {
		info, err := entry.Info()
		testkit.Must(t, err)
		modes[entry.Name()] = info.Mode().Perm()
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if _, ok := modes[store.FileName+suffix]; !ok {
			t.Errorf("no file %s: %v", store.FileName+suffix, modes)
		}
	}
	if len(modes) != 3 {
		t.Errorf("other files: %v", modes)
	}
	return modes
}

func TestDatabaseFilesHaveMode0600ForAnyUmask(t *testing.T) {
	for _, umask := range []int{0, 0o777} {
		dir := filepath.Join(t.TempDir(), "data")
		before := syscall.Umask(0)
		testkit.Must(t, os.Mkdir(dir, 0o755)) // like the directory of a volume, which others can read
		syscall.Umask(umask)
		s, err := store.Open(t.Context(), dir)
		if err == nil {
			err = addTeam(t.Context(), s, "a")
		}
		syscall.Umask(before)
		testkit.Must(t, err)
		for name, mode := range modes(t, dir) {
			if mode != 0o600 {
				t.Errorf("umask %#o: %s has mode %#o", umask, name, mode)
			}
		}
		testkit.Must(t, s.Close())
	}
}

func TestNewDirectoryHasMode0700(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	before := syscall.Umask(0)
	s, err := store.Open(t.Context(), dir)
	syscall.Umask(before)
	testkit.Must(t, err)
	testkit.Must(t, s.Close())
	info, err := os.Stat(dir)
	testkit.Must(t, err)
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("the directory has mode %#o", got)
	}
}

func TestOpenRestrictsTheModeOfExistingFiles(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir) // while it is open, all three files exist
	testkit.Must(t, addTeam(t.Context(), first, "a"))
	for name := range modes(t, dir) {
		testkit.Must(t, os.Chmod(filepath.Join(dir, name), 0o664))
	}
	if got := teams(t, open(t, dir)); got != 1 {
		t.Errorf("%d teams", got)
	}
	for name, mode := range modes(t, dir) {
		if mode != 0o600 {
			t.Errorf("%s has mode %#o", name, mode)
		}
	}
}
