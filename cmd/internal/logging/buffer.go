package logging

import (
	"io"
	"sync"
	"time"
)

const (
	flushSize  = 64 << 10
	flushAfter = 100 * time.Millisecond
)

// A buffer gathers lines. While one batch is being written, the next is gathered: whoever logs waits for the writer only when
// that one is full too.
type buffer struct {
	writing sync.Mutex // held while a batch is written, so that batches keep their order; taken before mu
	writer  io.Writer
	spare   []byte // the batch that was written last
	failed  error  // the first error of the writer

	mu     sync.Mutex
	batch  []byte
	closed bool

	begun   chan struct{} // a batch was begun
	stop    chan struct{}
	stopped chan struct{}
}

func newBuffer(w io.Writer) *buffer {
	b := &buffer{
		writer: w,
		begun:  make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go b.run()
	return b
}

// Write adds lines. It reports no error: there is nowhere to say that the log cannot be written, and no caller who could help.
func (b *buffer) Write(lines []byte) (int, error) {
	b.mu.Lock()
	first := len(b.batch) == 0
	b.batch = append(b.batch, lines...)
	full, closed := len(b.batch) >= flushSize, b.closed
	b.mu.Unlock()
	switch {
	case full || closed:
		_ = b.Flush()
	case first:
		select {
		case b.begun <- struct{}{}:
		default:
		}
	}
	return len(lines), nil
}

// Flush writes what has been gathered.
func (b *buffer) Flush() error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	batch := b.batch
	b.batch = b.spare[:0]
	b.mu.Unlock()
	b.spare = batch
	if len(batch) > 0 {
		if _, err := b.writer.Write(batch); err != nil && b.failed == nil {
			b.failed = err
		}
	}
	return b.failed
}

// run writes each batch a while after it was begun. It sleeps while nothing is logged.
func (b *buffer) run() {
	defer close(b.stopped)
	timer := time.NewTimer(flushAfter)
	defer timer.Stop()
	for {
		select {
		case <-b.begun:
			timer.Reset(flushAfter)
		case <-b.stop:
			return
		}
		select {
		case <-timer.C:
			_ = b.Flush()
		case <-b.stop:
			return
		}
	}
}

// Close ends the gathering and writes what is left.
func (b *buffer) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		close(b.stop)
	}
	<-b.stopped
	return b.Flush()
}
