package wiring

import "time"

// A Lifecycle receives the events of a gateway. Its methods must not block, and may be called concurrently.
type Lifecycle interface {
	// Serving is called when the gateway serves requests, and after each requested reload, successful or not.
	Serving()
	// Reloading is called before a reload that was requested by a signal.
	Reloading()
	// Draining is called when the gateway starts to shut down, which takes at most timeout.
	Draining(timeout time.Duration)
}

// noopLifecycle ignores all events.
type noopLifecycle struct{}

// Serving implements [Lifecycle].
func (noopLifecycle) Serving() {}

// Reloading implements [Lifecycle].
func (noopLifecycle) Reloading() {}

// Draining implements [Lifecycle].
func (noopLifecycle) Draining(time.Duration) {}
