package delivery

import (
	"sync"
	"time"
)

// warningsPerSecond bounds the warnings about failed attempts: one receiver that fails may have thousands of subscribers.
const warningsPerSecond = 10

// warnings counts the warnings of each second.
type warnings struct {
	clock func() time.Time

	mu       sync.Mutex
	second   int64
	admitted int
	skipped  int
}

// admit reports whether a warning may be logged, and how many were not since the last one.
func (w *warnings) admit() (skipped int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if second := w.clock().Unix(); second != w.second {
		w.second, w.admitted = second, 0
	}
	if w.admitted == warningsPerSecond {
		w.skipped++
		return 0, false
	}
	w.admitted++
	skipped, w.skipped = w.skipped, 0
	return skipped, true
}
