package edge

import "time"

// A Lifecycle is told how a gateway fares. Its methods return soon, and may be called at the same time.
type Lifecycle interface {
	// Serving is called when requests are served, and again when a reload is over, whatever came of it.
	Serving()
	// Reloading is called when a reload begins that somebody asked for.
	Reloading()
	// Draining is called when the gateway has begun to end. It will be over after atMost.
	Draining(atMost time.Duration)
}

// nobody is a Lifecycle for whom it may concern.
type nobody struct{}

// Serving implements [Lifecycle].
func (nobody) Serving() {}

// Reloading implements [Lifecycle].
func (nobody) Reloading() {}

// Draining implements [Lifecycle].
func (nobody) Draining(time.Duration) {}
