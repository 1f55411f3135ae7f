package demand

import (
	"errors"
	"time"
)

// maxRestart is the longest time from the end to the start of a gateway in which another configuration, which records nothing, is not
// assumed to have served.
const maxRestart = time.Minute

// longestPossible is the longest window that a limit may have.
const longestPossible = 31 * 24 * time.Hour

// A boundary is the start of a gateway, or its end in order, by its clock.
type boundary struct {
	At    time.Time `json:"at"`
	Store string    `json:"store,omitempty"` // that keeps usage while the gateway does not run
}

func (l *line) checkBoundary() error {
	b := l.Started
	if b == nil {
		b = l.Ended
	}
	switch {
	case *l != line{Started: b} && *l != line{Ended: b}:
		return errors.New("has started or ended and other fields")
	case b.At.IsZero(): // any other, as the clock of a gateway may be wrong
		return errors.New("must have a time in at of started and ended")
	}
	return nil
}

// restarts finds the starts that are no interruption. One is if the gateway has not ended in order, if the store kept no usage, or if the
// gateway decided requests in place of the store whose usage a window may still hold: that is lost with the gateway.
type restarts struct {
	ended      *boundary // in order, after the newest request
	localUntil time.Time // end of the windows that may hold requests that the gateway decided by itself
	inOrder    span      // from the last request before the last start in order to the first one after it; zero for none
	awaits     bool      // the first one
}

// continues reports whether the gateway that starts continues the record of the one that ended.
func (r *restarts) continues(started *boundary) bool {
	ended := r.ended
	r.ended, r.inOrder = nil, span{}
	if ended == nil || ended.Store == "" || ended.Store != started.Store || ended.At.Before(r.localUntil.Add(maxDelay)) {
		return false
	}
	between := started.At.Sub(ended.At)
	r.awaits = between >= 0 && between <= maxRestart
	return r.awaits
}

// restart returns the start in order as an interruption, if the request shows that it is one: a gateway that starts in an outage does not
// know the usage in the store.
func (r *restarts) restart(e *Event, before time.Time) (Interruption, bool) {
	r.ended = nil
	if r.awaits {
		r.inOrder, r.awaits = span{before, e.At}, false
	}
	if !e.Local {
		return Interruption{}, false
	}
	window := longestPossible
	if e.Policy != nil {
		window = longest(e.Policy, true)
	}
	r.localUntil = later(r.localUntil, e.At.Add(window))
	found := r.inOrder
	if found.from.IsZero() || e.At.Add(-window).After(found.to) {
		return Interruption{}, false
	}
	r.inOrder = span{}
	return Interruption{Kind: GatewayStarted, From: found.from, To: found.to}, true
}
