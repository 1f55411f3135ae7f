// Package pulse makes the periodic tasks of a process run at the same moments. A process that idles
// then wakes twice a second, and not for each task.
package pulse

import "time"

// A Timer fires at each multiple of an interval since the zero time.
type Timer struct {
	*time.Timer

	every time.Duration
}

// New returns a running timer. Its user calls [Timer.Again] after each time that it fired.
func New(every time.Duration) Timer { return Timer{time.NewTimer(Until(every)), every} }

// Again makes the timer fire at the next multiple.
func (t Timer) Again() { t.Reset(Until(t.every)) }

// Until returns the time until the next multiple of an interval.
func Until(every time.Duration) time.Duration {
	now := time.Now()
	return now.Truncate(every).Add(every).Sub(now)
}
