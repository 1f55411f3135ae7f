package demand

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
)

const (
	// maxLine is larger than any line of a record, in bytes.
	maxLine = 16 << 10
	// maxLookAhead is the number of events that are read ahead to sort them by time. A gateway records requests that it decides at
	// the same time in any order.
	maxLookAhead = 1024
)

// A Record is the record of one or more gateways. It is read once, from its beginning.
type Record struct {
	sources []*source
	summary Summary
}

// A Summary describes the part of a record that has been read.
type Summary struct {
	MinSample, MaxSample float64 // parts of all tokens that were recorded, 0 to 1
	Dropped              uint64  // events that are missing
}

// Open opens the records at the paths, each with its older file.
func Open(paths ...string) (_ *Record, err error) {
	r := new(Record)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, path := range paths {
		s := &source{summary: &r.summary}
		r.sources = append(r.sources, s)
		if err := s.open(path); err != nil {
			return nil, fmt.Errorf("open a record of demand: %w", err)
		}
	}
	return r, nil
}

// Summary returns the summary. It is complete after all events have been read.
func (r *Record) Summary() Summary { return r.summary }

// Close closes the files.
func (r *Record) Close() error {
	var errs []error
	for _, s := range r.sources {
		for _, f := range s.files {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Events returns the events in the order of their times. It ends with the first error, which names the file and the line.
func (r *Record) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			var next *source
			for _, s := range r.sources {
				if err := s.fill(); err != nil {
					yield(Event{}, err)
					return
				}
				if len(s.pending) > 0 && (next == nil || s.pending[0].At.Before(next.pending[0].At)) {
					next = s
				}
			}
			if next == nil || !yield(next.pop(), nil) {
				return
			}
		}
	}
}

// A source is the record of one gateway.
type source struct {
	summary *Summary
	files   []*os.File    // not read to the end yet, older first
	lines   *bufio.Reader // of the first file
	line    int           // last line read of the first file
	pending []Event       // read ahead, sorted by time
}

// open opens both files, the newer one first: if a gateway rotates them meanwhile, both paths lead to that file.
func (s *source) open(path string) error {
	newer, err := os.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		s.files = []*os.File{newer}
	}
	older, olderErr := os.Open(path + olderSuffix)
	switch {
	case olderErr == nil:
		s.files = slices.Insert(s.files, 0, older)
	case !errors.Is(olderErr, fs.ErrNotExist):
		return olderErr
	case err != nil:
		return err // neither exists
	}
	if len(s.files) < 2 {
		return nil
	}
	same, err := isSame(older, newer)
	if same {
		s.files = s.files[:1]
		return newer.Close()
	}
	return err
}

func isSame(a, b *os.File) (bool, error) {
	first, err := a.Stat()
	if err != nil {
		return false, err
	}
	second, err := b.Stat()
	return err == nil && os.SameFile(first, second), err
}

// pop removes and returns the first pending event.
func (s *source) pop() Event {
	e := s.pending[0]
	s.pending = s.pending[1:]
	return e
}

// fill reads until enough events are pending or all files are read.
func (s *source) fill() error {
	for len(s.pending) < maxLookAhead && len(s.files) > 0 {
		text, err := s.next()
		if errors.Is(err, io.EOF) {
			continue // with the next file, if there is one
		}
		var l line
		if err == nil {
			l, err = decodeLine(text)
		}
		if err == nil && s.line == 1 && l.Format == 0 {
			err = errNotARecord
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", s.files[0].Name(), s.line, err)
		}
		s.add(&l)
	}
	return nil
}

// next reads a line. Its error is io.EOF at the end of a file, also after an incomplete line.
func (s *source) next() ([]byte, error) {
	if s.lines == nil {
		s.lines, s.line = bufio.NewReaderSize(s.files[0], maxLine), 0
	}
	text, err := s.lines.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		closing := s.files[0].Close()
		s.files, s.lines = s.files[1:], nil
		return nil, errors.Join(err, closing)
	case errors.Is(err, bufio.ErrBufferFull):
		err = fmt.Errorf("is longer than %d bytes", maxLine)
	}
	s.line++
	return text, err
}

// add adds a line to the summary or to the pending events.
func (s *source) add(l *line) {
	switch {
	case l.Format != 0:
		if s.summary.MaxSample == 0 || l.Sample < s.summary.MinSample {
			s.summary.MinSample = l.Sample
		}
		s.summary.MaxSample = max(s.summary.MaxSample, l.Sample)
	case l.Dropped != 0:
		s.summary.Dropped += l.Dropped
	default:
		e := l.event()
		at := len(s.pending)
		for at > 0 && e.At.Before(s.pending[at-1].At) {
			at--
		}
		s.pending = slices.Insert(s.pending, at, e)
	}
}
