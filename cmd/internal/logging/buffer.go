package logging

import (
	"io"
	"sync"
	"time"
)

const (
	flushSize  = 64 << 10
	flushAfter = 100 * time.Millisecond
	// mostGathered bounds what waits for a reader of the log that does not read, and lastWords how long the end waits for it.
	mostGathered = 4 << 20
	lastWords    = time.Second
)

// A buffer gathers lines. One goroutine writes them, and nobody else ever waits for the writer.
type buffer struct {
	writing sync.Mutex // held while a batch is written, so that batches keep their order; taken before mu
	writer  io.Writer
	spare   []byte // the batch that was written last
	failed  error  // the first error of the writer

	mu     sync.Mutex
	batch  []byte
	lost   int // lines, since there was room
	closed bool

	tell    func(lost int) // logs that lines were lost
	begun   chan struct{}  // a batch was begun
	urgent  chan struct{}  // it is to be written at once
	stop    chan struct{}
	stopped chan struct{}
}

// newBuffer makes a buffer that writes nothing until it is run.
func newBuffer(w io.Writer) *buffer {
	return &buffer{
		writer: w,
		begun:  make(chan struct{}, 1), urgent: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// Write adds lines. It reports no error: there is nowhere to say that the log cannot be written, and no caller who could help.
func (b *buffer) Write(lines []byte) (int, error) {
	b.mu.Lock()
	if len(b.batch)+len(lines) > mostGathered {
		b.lost++
		b.mu.Unlock()
		return len(lines), nil
	}
	first := len(b.batch) == 0
	b.batch = append(b.batch, lines...)
	full, closed := len(b.batch) >= flushSize, b.closed
	b.mu.Unlock()
	switch {
	case closed:
		b.flushLate()
	case full:
		b.hurry()
	case first:
		wake(b.begun)
	}
	return len(lines), nil
}

// hurry has what was gathered written at once.
func (b *buffer) hurry() { wake(b.urgent) }

func wake(sleeper chan<- struct{}) {
	select {
	case sleeper <- struct{}{}:
	default: // it wakes up already
	}
}

// flush writes what has been gathered, and returns how many lines had no room in it and the first error that there ever was.
func (b *buffer) flush() (lost int, err error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	return b.write()
}

// flushLate writes what was logged after the end, unless somebody writes already: they may do so for ever, if nobody reads.
func (b *buffer) flushLate() {
	if b.writing.TryLock() {
		defer b.writing.Unlock()
		_, _ = b.write()
	}
}

// write is flush for who holds writing.
func (b *buffer) write() (lost int, err error) {
	b.mu.Lock()
	batch := b.batch
	b.batch = b.spare[:0]
	lost, b.lost = b.lost, 0
	b.mu.Unlock()
	if b.spare = batch; cap(batch) > 2*flushSize {
		b.spare = nil // it was gathered for long
	}
	if len(batch) > 0 {
		if _, err := b.writer.Write(batch); err != nil && b.failed == nil {
			b.failed = err
		}
	}
	return lost, b.failed
}

// run writes each batch a while after it was begun, or at once. It sleeps while nothing is logged.
func (b *buffer) run() {
	defer close(b.stopped)
	timer := time.NewTimer(flushAfter)
	defer timer.Stop()
	for {
		select {
		case <-b.begun:
			timer.Reset(flushAfter)
		case <-b.urgent:
			timer.Reset(0)
		case <-b.stop:
			return
		}
		select {
		case <-timer.C:
		case <-b.urgent:
		case <-b.stop:
			return
		}
		if lost, _ := b.flush(); lost > 0 {
			b.tell(lost)
		}
	}
}

// Close ends the gathering and writes what is left, as far as somebody reads it.
func (b *buffer) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		close(b.stop)
	}
	written := make(chan error, 1)
	go func() {
		<-b.stopped
		lost, err := b.flush()
		if lost > 0 {
			b.tell(lost)
			_, err = b.flush()
		}
		written <- err
	}()
	wait := time.NewTimer(lastWords)
	defer wait.Stop()
	select {
	case err := <-written:
		return err
	case <-wait.C:
		return nil // there is nobody to tell
	}
}
