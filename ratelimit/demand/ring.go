package demand

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// olderSuffix is what the older file of a record has at its end.
const olderSuffix = ".1"

// A ring is two files of lines. When the newer one is full, it takes the place of the older one.
type ring struct {
	path   string
	half   int64 // bytes that each file may have
	header []byte

	file *os.File // nil while there is none that can be written
	size int64
}

// open opens the newer file, and makes it fit to be appended to.
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
	if err := claim(f); err != nil {
		return err
	}
	size, err := trim(f)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	if r.file, r.size = f, size; size+int64(len(r.header)) > r.half {
		return r.turnOver()
	}
	n, err := f.Write(r.header) // again after a restart: the sample may be another one
	r.size += int64(n)
	return err
}

// dropOversized removes what is left of a record that might be larger: together, the two files must not pass the bound.
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
			return fmt.Errorf("%s: is no ordinary file", path)
		}
		if info.Size() <= r.half {
			continue
		}
		if err := checkStart(path); err != nil {
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
	if r.file != nil && r.isElsewhere() {
		_ = r.close() // somebody removed it, or put another in its place: nothing is left to be done for it
	}
	if r.file == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	if r.size+int64(len(lines)) > r.half {
		if err := r.turnOver(); err != nil {
			return err
		}
	}
	n, err := r.file.Write(lines)
	if err != nil {
		r.giveUp(int64(n))
		return err
	}
	r.size += int64(n)
	return nil
}

// giveUp takes back what was written of lines, and leaves it to the next write to open the file again.
func (r *ring) giveUp(written int64) {
	if written > 0 {
		_ = r.file.Truncate(r.size) // else open finds a line that is torn
	}
	_ = r.close()
}

// isElsewhere says whether the file has another name now, or none.
func (r *ring) isElsewhere() bool {
	open, err := r.file.Stat()
	if err != nil {
		return true
	}
	named, err := os.Stat(r.path)
	return err != nil || !os.SameFile(open, named)
}

// turnOver makes the newer file the older one, and begins another.
func (r *ring) turnOver() error {
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

// trim cuts off a last line that is torn, as a process that was killed leaves one, and returns the size.
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
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if whole == len(tail) {
		return size, nil
	}
	if whole == 0 && size > maxLine {
		return 0, errNoRecord
	}
	size -= int64(len(tail) - whole)
	return size, f.Truncate(size)
}

var errNoRecord = errors.New("is no record of demand")

func checkStart(path string) error {
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

// checkHeader refuses a file that does not begin as a record does. Its beginning may be torn.
func checkHeader(f io.ReaderAt) error {
	start := make([]byte, len(headerStart))
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(start[:n]) != headerStart[:n] {
		return errNoRecord
	}
	return nil
}
