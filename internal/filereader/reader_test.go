package filereader

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

// A read that does not end, as of a network mount, is given up, and none begins until it has ended.
func TestReadsThatHangAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, mount := new(Reader), make(chan struct{})
		begun := 0
		read := func(path string) error {
			_, err := r.read(path, Timeout, func(string) ([]byte, error) {
				begun++
				<-mount
				return nil, nil
			})
			return err
		}
		const hangs = "the read of /mnt/a does not end: its file system may hang"
		for i, path := range []string{"/mnt/a", "/mnt/a", "/mnt/b"} {
			began := time.Now()
			err := read(path)
			if err == nil || err.Error() != hangs {
				t.Errorf("%s: got %v, want %s", path, err, hangs)
			}
			if took := time.Since(began); i == 0 && took != Timeout || i > 0 && took != 0 {
				t.Errorf("%s: took %v", path, took)
			}
		}
		synctest.Wait()
		if begun != 1 {
			t.Errorf("%d reads are outstanding", begun)
		}
		close(mount)
		synctest.Wait()
		if err := read("/mnt/b"); err != nil {
			t.Error(err)
		}
	})
}

func TestOnlyReadAnyTakesAPipe(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	testkit.Must(t, os.WriteFile(file, []byte("content"), 0o600))
	testkit.Must(t, os.Symlink(file, link))
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	r := new(Reader)
	for path, want := range map[string]string{
		file: "", link: "", pipe: pipe + " is a pipe, not a regular file", dir: dir + " is a directory, not a regular file",
		"/dev/null": "/dev/null is a device, not a regular file", filepath.Join(dir, "missing"): "no such file",
	} {
		content, err := r.Read(path)
		if want == "" && (err != nil || string(content) != "content") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %q, %v", path, content, err)
		}
	}
	testkit.Must(t, os.Truncate(file, MaxSize+1))
	if _, err := r.Read(file); err == nil || err.Error() != file+" is larger than 1048576 bytes" {
		t.Errorf("got %v", err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("content"), 0o600) }() // waits for the reader
	if content, err := r.ReadAny(pipe); err != nil || string(content) != "content" {
		t.Errorf("got %q, %v", content, err)
	}
}
