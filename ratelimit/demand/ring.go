package demand

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// olderSuffix is appended to the path of a record for its older file.
const olderSuffix = ".1"

// A ring is two files of lines. When the newer file is full, it replaces the older one.
type ring struct {
	path         string
	maxFileBytes int64 // maximum bytes of each file
	header       []byte

	file *os.File // the newer one; nil if it must be opened
	size int64
}

// open opens or creates the newer file for appending.
func (r *ring) open() (err error) {
	if err := r.dropOversized(); err != nil {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			r.file, r.size = nil, 0
		}
	}()
	if err := checkHeader(f); err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	if err := lock(f); err != nil {
		return err
	}
	size, err := trim(f)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	if r.file, r.size = f, size; size+int64(len(r.header)) > r.maxFileBytes {
		return r.rotate()
	}
	n, err := f.Write(r.header) // after a restart, too: the sample may have changed
	r.size += int64(n)
	return err
}

// dropOversized removes files that are larger than half the bound, as the bound was lowered.
func (r *ring) dropOversized() error {
	for _, path := range []string{r.path, r.path + olderSuffix} {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: is not a regular file", path)
		}
		if info.Size() <= r.maxFileBytes {
			continue
		}
		if err := checkHeaderAt(path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// write appends lines, all of them or none.
func (r *ring) write(lines []byte) error {
	if r.file != nil && r.isReplaced() {
		_ = r.close() // its lines are lost in any case
	}
	if r.file == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	if r.size+int64(len(lines)) > r.maxFileBytes {
		if err := r.rotate(); err != nil {
			return err
		}
	}
	n, err := r.file.Write(lines)
	if err != nil {
		r.undo(int64(n))
		return err
	}
	r.size += int64(n)
	return nil
}

// undo truncates the file to its size before a failed write, and closes it. The next write opens it again.
func (r *ring) undo(written int64) {
	if written > 0 {
		_ = r.file.Truncate(r.size) // else the file ends with a part of a line
	}
	_ = r.close()
}

// isReplaced reports whether the path does not lead to the open file any more.
func (r *ring) isReplaced() bool {
	open, err := r.file.Stat()
	if err != nil {
		return true
	}
	named, err := os.Stat(r.path)
	return err != nil || !os.SameFile(open, named)
}

// rotate makes the newer file the older one, and opens a new one.
func (r *ring) rotate() error {
	if err := r.close(); err != nil {
		return err
	}
	if err := os.Rename(r.path, r.path+olderSuffix); err != nil {
		return err
	}
	return r.open()
}

func (r *ring) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file, r.size = nil, 0
	return err
}

// trim removes an incomplete last line, which a killed process may leave, and returns the size.
func trim(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size = info.Size()
	tail := make([]byte, min(size, maxLine))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	complete := bytes.LastIndexByte(tail, '\n') + 1
	if complete == len(tail) {
		return size, nil
	}
	if complete == 0 && size > maxLine {
		return 0, errNotARecord
	}
	size -= int64(len(tail) - complete)
	return size, f.Truncate(size)
}

var errNotARecord = errors.New("is not a record of demand")

func checkHeaderAt(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := checkHeader(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// checkHeader fails if the file does not begin with headerStart. An empty file and one that ends within headerStart are accepted.
func checkHeader(f io.ReaderAt) error {
	start := make([]byte, len(headerStart))
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(start[:n]) != headerStart[:n] {
		return errNotARecord
	}
	return nil
}
