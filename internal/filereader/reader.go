package filereader

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxSize is the maximum size of a file in bytes.
	MaxSize = 1 << 20
	// Timeout is the maximum time of [Reader.Read].
	Timeout = 2 * time.Second
	// anyTimeout is the maximum time of [Reader.ReadAny]. The program that writes a pipe may take
	// long.
	anyTimeout = 30 * time.Second
)

// A Reader reads one file at a time. The zero value is ready for use. It is safe for concurrent
// use.
type Reader struct {
	mu   sync.Mutex // held during a read
	late *read      // the last read if it has not ended in time, or nil
}

// A read is a read in its own goroutine.
type read struct {
	path    string
	ended   chan struct{} // closed when content and err are set
	content []byte
	err     error
}

// Read returns the content of a regular file. It returns an error after Timeout, and from then on
// at once until the read has ended.
func (r *Reader) Read(path string) ([]byte, error) { return r.read(path, Timeout, readRegular) }

// ReadAny is Read for a file that is read only once: it may be a pipe or a device, and may take 30
// s.
func (r *Reader) ReadAny(path string) ([]byte, error) { return r.read(path, anyTimeout, readAny) }

// Identity returns what changes when a program writes, replaces or touches the file at a path: its
// size, mtime, ctime, inode and device. It follows links, and takes as long as Read.
func (r *Reader) Identity(path string) (string, error) {
	identity, err := r.read(path, Timeout, identify)
	return string(identity), err
}

func identify(path string) ([]byte, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fmt.Append(nil, s.Size, s.Mtim, s.Ctim, s.Ino, s.Dev), nil
}

func (r *Reader) read(path string, timeout time.Duration, do func(path string) ([]byte, error)) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late != nil && !r.late.hasEnded() {
		return nil, r.late.errLate()
	}
	r.late = nil
	current := &read{path: path, ended: make(chan struct{})}
	go func() {
		defer close(current.ended)
		current.content, current.err = do(path)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-current.ended:
		return current.content, current.err
	case <-timer.C:
		r.late = current
		return nil, current.errLate()
	}
}

func (r *read) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (r *read) errLate() error {
	return fmt.Errorf("the read of %s does not end: its file system may hang", r.path)
}

// readRegular reads a regular file.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s, not a regular file", path, kindOf(info.Mode()))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return readAll(f)
}

func readAny(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return readAll(f)
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device"
}

// readAll returns the content of a file and closes it.
func readAll(f *os.File) ([]byte, error) {
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(content) > MaxSize {
		err = fmt.Errorf("%s is larger than %d bytes", f.Name(), MaxSize)
	}
	return content, err
}
