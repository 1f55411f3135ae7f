package failover

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// stallTick is the interval at which a stallWatch looks.
const stallTick = 10 * time.Millisecond

// A stallWatch measures for how long this process did not run, because it was stopped or had no processor: it sleeps for a tick again and
// again, and every sleep that ends late adds to that time.
type stallWatch struct {
	now  func() time.Duration
	tick time.Duration

	mu    sync.Mutex   // held while total and due are written, or are read together
	total atomic.Int64 // ns
	due   int64        // end of the current sleep, in ns; 0 while run does not run
}

// run measures until ctx ends.
func (w *stallWatch) run(ctx context.Context) {
	timer := time.NewTimer(w.tick)
	defer timer.Stop()
	for {
		now := w.now()
		w.endSleep(now, int64(now+w.tick))
		select {
		case <-ctx.Done():
			w.endSleep(w.now(), 0)
			return
		case <-timer.C:
			timer.Reset(w.tick)
		}
	}
}

// endSleep adds the time by which the current sleep ends late, and begins one until due; 0 for none.
func (w *stallWatch) endSleep(now time.Duration, due int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total.Store(w.totalLocked(now))
	w.due = due
}

// totalAt returns for how long, in ns, this process has not run so far, the current sleep included.
func (w *stallWatch) totalAt(now time.Duration) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.totalLocked(now)
}

// totalLocked is totalAt under the lock.
func (w *stallWatch) totalLocked(now time.Duration) int64 {
	if w.due == 0 {
		return w.total.Load()
	}
	return w.total.Load() + max(0, int64(now)-w.due)
}
