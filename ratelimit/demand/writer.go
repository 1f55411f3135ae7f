package demand

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	maxBuffered = 64 << 10 // bytes, after which the writer flushes
	warnEvery   = time.Minute
)

// A writer buffers lines and writes them to the ring.
type writer struct {
	ring    *ring
	clock   func() time.Time
	logger  *slog.Logger
	metrics *metrics

	lines  []byte // buffered
	events uint64 // in lines

	overflowed atomic.Uint64 // events dropped since the last flush, as the queue was full
	unrecorded uint64        // dropped events for which the record has no line yet
	unlogged   uint64        // dropped events for which the log has no line yet
	warned     time.Time     // the last warning; zero for none
	failing    bool          // the last write failed
}

var errQueueFull = errors.New("events come faster than they can be written")

// add buffers an event, and flushes a full buffer.
func (w *writer) add(e *Event) {
	w.lines = appendEvent(w.lines, e)
	if w.events++; len(w.lines) >= maxBuffered {
		w.flush()
	}
}

// flush writes the buffered lines. Lines that cannot be written are dropped, so that memory does not grow while a disk is full.
func (w *writer) flush() {
	dropped, cause := w.overflowed.Swap(0), errQueueFull
	w.unrecorded += dropped
	if w.unrecorded > 0 {
		w.lines = appendDropped(w.lines, w.unrecorded)
	}
	if len(w.lines) == 0 {
		return
	}
	err := w.ring.write(w.lines)
	if err != nil {
		w.metrics.unwritable.Add(float64(w.events))
		dropped += w.events
		w.unrecorded += w.events
		cause = err
	} else {
		w.metrics.recorded.Add(float64(w.events))
		w.unrecorded = 0
	}
	w.lines, w.events = w.lines[:0], 0
	w.warn(dropped, cause)
	if w.failing && err == nil {
		w.logger.Info("demand is recorded again", slog.String("file", w.ring.path))
	}
	w.failing = err != nil
}

// warn logs at most once a minute that events were dropped.
func (w *writer) warn(dropped uint64, cause error) {
	w.unlogged += dropped
	now := w.clock()
	if w.unlogged == 0 || !w.warned.IsZero() && now.Sub(w.warned) < warnEvery {
		return
	}
	w.logger.Warn("demand is not recorded in full",
		slog.String("file", w.ring.path), slog.Uint64("dropped", w.unlogged), slog.String("cause", cause.Error()))
	w.warned, w.unlogged = now, 0
}
