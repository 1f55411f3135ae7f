package logging

import (
	"io"
	"sync"
	"time"
)

const (
	flushSize    = 64 << 10
	flushAfter   = 100 * time.Millisecond
	maxBuffered  = 4 << 20     // bytes of lines that the reader of the log has not read
	closeTimeout = time.Second // for the reader of the log at the end
)

// A buffer collects lines. One goroutine writes them, so that no caller waits for the writer.
type buffer struct {
	writing sync.Mutex // held while a batch is written, so that batches keep their order; taken before mu
	writer  io.Writer
	spare   []byte // the batch that was written last
	failed  error  // the first error of the writer

	mu     sync.Mutex
	batch  []byte
	lost   int // lines dropped since the last flush
	closed bool

	report  func(lost int) // logs that lines were lost
	begun   chan struct{}  // a batch has its first line
	urgent  chan struct{}  // the batch is to be written at once
	stop    chan struct{}
	stopped chan struct{}
}

// newBuffer returns a buffer that writes nothing until run is called.
func newBuffer(w io.Writer) *buffer {
	return &buffer{
		writer: w,
		begun:  make(chan struct{}, 1), urgent: make(chan struct{}, 1), stop: make(chan struct{}),
		stopped: make(chan struct{}),
	}
}

// Write adds lines. It never fails: no caller could handle an error of the log, and Close returns
// it.
func (b *buffer) Write(lines []byte) (int, error) {
	b.mu.Lock()
	if len(b.batch)+len(lines) > maxBuffered {
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
		b.flushSoon()
	case first:
		signal(b.begun)
	}
	return len(lines), nil
}

// flushSoon makes run write the batch without delay.
func (b *buffer) flushSoon() { signal(b.urgent) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is pending
	}
}

// flush writes the batch. It returns the number of lines that were dropped since the last flush and
// the first error of the writer.
func (b *buffer) flush() (lost int, err error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	return b.write()
}

// flushLate writes lines that were logged after Close, unless a write is in progress: it may never
// end if the log is not read.
func (b *buffer) flushLate() {
	if b.writing.TryLock() {
		defer b.writing.Unlock()
		_, _ = b.write()
	}
}

// write is flush for callers that hold b.writing.
func (b *buffer) write() (lost int, err error) {
	b.mu.Lock()
	batch := b.batch
	b.batch = b.spare[:0]
	lost, b.lost = b.lost, 0
	b.mu.Unlock()
	if b.spare = batch; cap(batch) > 2*flushSize {
		b.spare = nil // release the memory of an exceptional batch
	}
	if len(batch) > 0 {
		if _, err := b.writer.Write(batch); err != nil && b.failed == nil {
			b.failed = err
		}
	}
	return lost, b.failed
}

// run writes each batch flushAfter its first line or when flushSoon is called, until Close.
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
			b.report(lost)
		}
	}
}

// Close stops run and writes the last batch. It gives up after closeTimeout.
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
			b.report(lost)
			_, err = b.flush()
		}
		written <- err
	}()
	wait := time.NewTimer(closeTimeout)
	defer wait.Stop()
	select {
	case err := <-written:
		return err
	case <-wait.C:
		return nil // the log is not read
	}
}
