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
	"time"

	"opsgate/ratelimit"
)

const (
	// maxLine is larger than any line of a record, in bytes.
	maxLine = 16 << 10
	// maxLookAhead is the number of events that are read ahead to sort them by time. A gateway records requests that it decides at
	// the same time in any order.
	maxLookAhead = 1024
	// maxDelay is longer than a gateway takes from a decision to its line. A request that is older than another before it shows that
	// the clock of the store was set back.
	maxDelay = time.Second
)

// A Record is the record of one or more gateways. It is read once, from its beginning.
type Record struct {
	sources []*source
	shared  shared
}

// shared is what the sources of a record share.
type shared struct {
	summary       Summary
	interruptions []Interruption
	policies      map[[ratelimit.MaxLimits]ratelimit.Limit]*ratelimit.Policy // so that each is one pointer
}

// A Summary describes the part of a record that has been read.
type Summary struct {
	MinSample float64 `json:"sample_least"` // part of all tokens that was recorded, 0 to 1
	MaxSample float64 `json:"sample_most"`
	Dropped   uint64  `json:"dropped"` // events that are missing
}

// A Kind is a kind of interruption.
type Kind string

// The kinds of interruptions.
const (
	EventsMissing  Kind = "events missing" // From is zero if the time is not known
	GatewayStarted Kind = "gateway started"
	ClockSetBack   Kind = "clock set back"
)

// An Interruption is a time in which a record does not show what its gateway counted.
type Interruption struct {
	Kind   Kind      `json:"kind"`
	Path   string    `json:"file"` // of the record
	From   time.Time `json:"from,omitzero"`
	To     time.Time `json:"to,omitzero"`
	Events uint64    `json:"events,omitempty"` // that are missing; 0 for other kinds
}

// Open opens the records at the paths, each with its older file.
func Open(paths ...string) (_ *Record, err error) {
	r := &Record{shared: shared{policies: make(map[[ratelimit.MaxLimits]ratelimit.Limit]*ratelimit.Policy)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for i, path := range paths {
		if slices.ContainsFunc(paths[:i], func(other string) bool { return isSameRecord(path, other) }) {
			return nil, fmt.Errorf("open a record of demand: %s is named twice; a record includes its older file, %s", path, path+olderSuffix)
		}
		s := &source{shared: &r.shared, path: path, policies: make(map[int]*ratelimit.Policy)}
		r.sources = append(r.sources, s)
		if err := s.open(path); err != nil {
			return nil, fmt.Errorf("open a record of demand: %w", err)
		}
	}
	return r, nil
}

// isSameRecord reports whether two paths are of one record: of the same file, or of its newer and its older one.
func isSameRecord(a, b string) bool {
	for _, pair := range [][2]string{{a, b}, {a + olderSuffix, b}, {a, b + olderSuffix}} {
		x, errX := os.Stat(pair[0])
		y, errY := os.Stat(pair[1])
		if errX == nil && errY == nil && os.SameFile(x, y) {
			return true
		}
	}
	return false
}

// Summary returns the summary. It is complete after all events have been read.
func (r *Record) Summary() Summary { return r.shared.summary }

// Interruptions returns what limits the evidence of the record. It is complete after all events have been read.
func (r *Record) Interruptions() []Interruption { return r.shared.interruptions }

// A Period is the requests of one gateway's record.
type Period struct {
	Path        string `json:"file"`
	Total       `json:"span,omitzero"`
	Memberships []Membership `json:"-"` // in the order of their times
}

// Periods returns the period of each path. They are complete after all events have been read.
func (r *Record) Periods() []Period {
	periods := make([]Period, len(r.sources))
	for i, s := range r.sources {
		periods[i] = Period{s.path, s.requests, s.memberships}
	}
	return periods
}

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
			if next == nil {
				return
			}
			first := next.pending[0]
			if next.pending = next.pending[1:]; !yield(first, nil) {
				return
			}
		}
	}
}

// A source is the record of one gateway.
type source struct {
	*shared

	path    string
	files   []*os.File    // not read to the end yet, older first
	lines   *bufio.Reader // of the first file
	line    int           // last line read of the first file
	pending []Event       // read ahead, sorted by time

	policies    map[int]*ratelimit.Policy // by number
	requests    Total
	restarted   bool // the gateway has started after the newest request
	memberships []Membership
	counted     bool // a line after the last header has the gateways
	restarts
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
		if err := s.add(&l); err != nil {
			return fmt.Errorf("%s:%d: %w", s.files[0].Name(), s.line, err)
		}
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

// add adds a line to the summary, to the policies or to the pending events.
func (s *source) add(l *line) error {
	switch {
	case l.Format != 0:
		if s.summary.MaxSample == 0 || l.Sample < s.summary.MinSample {
			s.summary.MinSample = l.Sample
		}
		s.summary.MaxSample = max(s.summary.MaxSample, l.Sample)
		s.restarted, s.counted = s.restarted || s.line > 1, false
	case l.Dropped != 0:
		s.summary.Dropped += l.Dropped
		missing := Interruption{Kind: EventsMissing, Path: s.path, Events: l.Dropped}
		if l.From != nil {
			missing.From, missing.To = l.From.UTC(), l.To.UTC()
		}
		s.interruptions = append(s.interruptions, missing)
	case l.Gateways != nil:
		g := l.Gateways
		s.setGateways(g.At.UTC(), Gateways{g.ID, g.Count, g.IDs})
	case l.Ended != nil:
		if !s.restarted { // else that start is still to be shown by a request
			s.ended = l.Ended
		}
	case l.Started != nil:
		s.restarted = !s.continues(l.Started)
	case l.Limits != nil:
		return s.define(l)
	default:
		e := l.event()
		if l.Policy > 0 {
			if e.Policy = s.policies[l.Policy]; e.Policy == nil {
				return fmt.Errorf("has policy %d, which no line before it has", l.Policy)
			}
		}
		s.insert(&e)
	}
	return nil
}

// define defines the policy of a number. After a start, a gateway uses the numbers again.
func (s *source) define(l *line) error {
	p, err := l.policy()
	if err != nil {
		return err
	}
	var limits [ratelimit.MaxLimits]ratelimit.Limit
	copy(limits[:], p.Limits())
	if s.shared.policies[limits] == nil {
		s.shared.policies[limits] = p
	}
	s.policies[l.Policy] = s.shared.policies[limits]
	return nil
}

// setGateways begins a membership, and ends the last one. Each file repeats the gateways that are current.
func (s *source) setGateways(at time.Time, g Gateways) {
	s.counted = true
	if n := len(s.memberships); n > 0 {
		last := &s.memberships[n-1]
		if last.equal(g) {
			return
		}
		if !last.From.Before(at) {
			last.Gateways = g
			return
		}
		last.To = at
	}
	s.memberships = append(s.memberships, Membership{Gateways: g, From: at})
}

// insert inserts an event into the pending ones.
func (s *source) insert(e *Event) {
	if e.isRequest() {
		if !s.counted {
			s.setGateways(e.At, Gateways{}) // an earlier version does not record them
		}
		s.interrupt(e)
	}
	at := len(s.pending)
	for at > 0 && e.At.Before(s.pending[at-1].At) {
		at--
	}
	s.pending = slices.Insert(s.pending, at, *e)
}

// interrupt adds the interruption that a request shows: a start of the gateway, or a clock that was set back.
func (s *source) interrupt(e *Event) {
	before := s.requests.To
	s.requests.count(e.At)
	if before.IsZero() {
		s.restarted = false
	}
	if x, ok := s.restart(e, before); ok {
		x.Path = s.path
		s.interruptions = append(s.interruptions, x)
	}
	switch {
	case s.restarted:
		s.interruptions = append(s.interruptions, Interruption{Kind: GatewayStarted, Path: s.path, From: before, To: e.At})
	case e.At.Before(before.Add(-maxDelay)) && !e.Cached: // not if before is zero
		s.interruptions = append(s.interruptions, Interruption{Kind: ClockSetBack, Path: s.path, From: e.At, To: before})
	}
	s.restarted = false
}
