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
	// maxLine is more bytes than any line of a record has.
	maxLine = 16 << 10
	// disorder is how many events may be written between one and another that happened later: requests of one token
	// that are decided at the same time are recorded in any order.
	disorder = 1024
)

// A Record is what one or more gateways recorded. It is read once, from its beginning.
type Record struct {
	sources []*source
	about   About
}

// About is what a record says of itself, as far as it has been read.
type About struct {
	Least, Most float64 // parts of the tokens that were sampled, 0 to 1
	Dropped     uint64  // events that are missing
}

// Open opens the records at the paths, each with its older part.
func Open(paths ...string) (_ *Record, err error) {
	r := new(Record)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, path := range paths {
		s := &source{about: &r.about}
		r.sources = append(r.sources, s)
		if err := s.open(path); err != nil {
			return nil, fmt.Errorf("open a record of demand: %w", err)
		}
	}
	return r, nil
}

// About returns what the record says of itself: all of it, once all events have been read.
func (r *Record) About() About { return r.about }

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

// Events reads the events by their time. It ends with the first error, which names a file and a line.
func (r *Record) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			var next *source
			for _, s := range r.sources {
				if err := s.fill(); err != nil {
					yield(Event{}, err)
					return
				}
				if len(s.ahead) > 0 && (next == nil || s.ahead[0].At.Before(next.ahead[0].At)) {
					next = s
				}
			}
			if next == nil || !yield(next.take(), nil) {
				return
			}
		}
	}
}

// A source is the record of one gateway.
type source struct {
	about *About
	files []*os.File // that are still to be read, and how far the first was
	lines *bufio.Reader
	line  int
	ahead []Event // by their time
}

// open opens both files, the newer one first: if it becomes the older one meanwhile, nothing is missed.
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
		return err // there is neither
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

// take returns the first event ahead.
func (s *source) take() Event {
	e := s.ahead[0]
	s.ahead = s.ahead[1:]
	return e
}

// fill reads ahead.
func (s *source) fill() error {
	for len(s.ahead) < disorder && len(s.files) > 0 {
		text, err := s.next()
		if errors.Is(err, io.EOF) {
			continue // with the next file, if there is one
		}
		var l line
		if err == nil {
			l, err = decodeLine(text)
		}
		if err == nil && s.line == 1 && l.Format == 0 {
			err = errNoRecord
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", s.files[0].Name(), s.line, err)
		}
		s.note(&l)
	}
	return nil
}

// next reads a line. One that the end of the file tears is none. Its error is io.EOF at the end of a file.
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

// note takes what a line says.
func (s *source) note(l *line) {
	switch {
	case l.Format != 0:
		if s.about.Most == 0 || l.Sample < s.about.Least {
			s.about.Least = l.Sample
		}
		s.about.Most = max(s.about.Most, l.Sample)
	case l.Dropped != 0:
		s.about.Dropped += l.Dropped
	default:
		e := l.event()
		at := len(s.ahead)
		for at > 0 && e.At.Before(s.ahead[at-1].At) {
			at--
		}
		s.ahead = slices.Insert(s.ahead, at, e)
	}
}
