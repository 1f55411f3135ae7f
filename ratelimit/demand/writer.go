package demand

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	chunk         = 64 << 10 // bytes that are written at once
	complainEvery = time.Minute
)

// A writer gathers lines and writes them to the ring.
type writer struct {
	ring    *ring
	clock   func() time.Time
	logger  *slog.Logger
	metrics *metrics

	lines  []byte
	events uint64 // in the lines

	overflowed atomic.Uint64 // events that found the queue full, since the last flush
	missing    uint64        // events that the record does not say are missing yet
	untold     uint64        // events that the log does not
	told       time.Time     // when the log was last told that something is lost
	failing    bool          // the last write failed
}

var errQueueFull = errors.New("events come faster than they can be written")

// take gathers an event to be written.
func (w *writer) take(e *Event) {
	w.lines = appendEvent(w.lines, e)
	if w.events++; len(w.lines) >= chunk {
		w.flush()
	}
}

// flush writes what was gathered. What cannot be written is lost: memory is no place for it while a disk is full.
func (w *writer) flush() {
	lost, cause := w.overflowed.Swap(0), errQueueFull
	w.missing += lost
	if w.missing > 0 {
		w.lines = appendDropped(w.lines, w.missing)
	}
	if len(w.lines) == 0 {
		return
	}
	err := w.ring.write(w.lines)
	if err != nil {
		w.metrics.unwritable.Add(float64(w.events))
		lost += w.events
		w.missing += w.events
		cause = err
	} else {
		w.metrics.recorded.Add(float64(w.events))
		w.missing = 0
	}
	w.lines, w.events = w.lines[:0], 0
	w.tell(lost, cause)
	if w.failing && err == nil {
		w.logger.Info("demand is recorded again", slog.String("file", w.ring.path))
	}
	w.failing = err != nil
}

// tell logs that events are lost, but not all the time.
func (w *writer) tell(lost uint64, cause error) {
	w.untold += lost
	now := w.clock()
	if w.untold == 0 || !w.told.IsZero() && now.Sub(w.told) < complainEvery {
		return
	}
	w.logger.Warn("demand is not recorded in full",
		slog.String("file", w.ring.path), slog.Uint64("dropped", w.untold), slog.String("cause", cause.Error()))
	w.told, w.untold = now, 0
}
