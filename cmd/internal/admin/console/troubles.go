package console

import (
	"sync"
	"time"
)

// Troubles remember since when something is not as it should be. A breaker that opens again after each probe begins a new state every
// few seconds, and whoever looks wants to know for how long nothing has worked.
type troubles struct {
	mu    sync.Mutex
	since map[string]time.Time // by what is wrong
}

// follow returns the dependencies with the times since when they are in trouble. What begins and ends between two looks is not seen.
func (t *troubles) follow(dependencies []Dependency, now time.Time) []Dependency {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.since
	t.since = make(map[string]time.Time)
	for i := range dependencies {
		d := &dependencies[i]
		if !d.OK {
			d.since = t.begun(before, "connection of "+d.Name, now)
		}
		if b := d.Breaker; b != nil && b.State != breakerClosed {
			if b.Since.IsZero() {
				b.Since = now
			}
			b.Since = t.begun(before, "breaker of "+d.Name, b.Since)
		}
	}
	return dependencies
}

// begun returns when a trouble began that is there now: what is known of it, or the time given.
func (t *troubles) begun(before map[string]time.Time, what string, at time.Time) time.Time {
	if known, ok := before[what]; ok {
		at = known
	}
	t.since[what] = at
	return at
}
