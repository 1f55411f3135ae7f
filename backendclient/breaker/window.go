package breaker

import "time"

// windowBuckets is the number of steps in which a window moves.
const windowBuckets = 10

// A window counts results over a period.
type window struct {
	start   time.Time
	step    time.Duration
	buckets [windowBuckets + 1]bucket // one more, because the current bucket is not complete
}

// A bucket has the results of a step.
type bucket struct {
	step              int64 // the number of the step
	succeeded, failed int
}

func newWindow(period time.Duration, now time.Time) window {
	return window{start: now, step: period / windowBuckets}
}

func (w *window) add(now time.Time, succeeded bool) {
	step := int64(now.Sub(w.start) / w.step)
	b := &w.buckets[step%int64(len(w.buckets))]
	if b.step != step {
		*b = bucket{step: step}
	}
	if succeeded {
		b.succeeded++
	} else {
		b.failed++
	}
}

// reach reports whether the results reach the failure rate that opens a breaker.
func (w *window) reach(s Settings, now time.Time) bool {
	var succeeded, failed int
	for _, b := range w.buckets {
		if int64(now.Sub(w.start)/w.step)-b.step <= windowBuckets {
			succeeded, failed = succeeded+b.succeeded, failed+b.failed
		}
	}
	all := succeeded + failed
	return all >= s.MinRequests && float64(failed) >= s.FailureRate*float64(all)
}
