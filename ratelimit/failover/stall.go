package failover

import (
	"context"
	"sync/atomic"
	"time"
)

// stallTick is the interval at which a stallWatch looks.
const stallTick = 10 * time.Millisecond

// A stallWatch measures for how long this process did not run, because it was stopped or had no processor: it sleeps for a tick again and
// again, and every sleep that ends late adds to that time.
type stallWatch struct {
	now   func() time.Duration
	tick  time.Duration
	total atomic.Int64 // ns
	due   atomic.Int64 // end of the current sleep, in ns; 0 while run does not run
}

// run measures until ctx ends.
func (w *stallWatch) run(ctx context.Context) {
	timer := time.NewTimer(w.tick)
	defer timer.Stop()
	defer w.due.Store(0)
	for {
		w.due.Store(int64(w.now() + w.tick))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			w.total.Store(w.totalAt(w.now()))
			timer.Reset(w.tick)
		}
	}
}

// totalAt returns for how long, in ns, this process has not run so far, the current sleep included.
func (w *stallWatch) totalAt(now time.Duration) int64 {
	due := w.due.Load()
	if due == 0 {
		return w.total.Load()
	}
	return w.total.Load() + max(0, int64(now)-due)
}
