package failover

import (
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A way is what the next request's way depends on.
type way int

const (
	certain  way = iota // the shared store decides, and knows all that is known here
	owing               // it decides; tokens that were decided here must be settled first
	doubtful            // it decides; it may have lost all that it knew, so every token must be settled first
	away                // it is not asked
)

// A phase is how things stand. It never changes: another takes its place.
type phase struct {
	way    way
	since  time.Time // when the shared store came into use, or went out of it
	outage uint64    // how many times, from 1, the shared store may have lost what it knew
	began  time.Time // when it did the last time
	cause  error     // why it is away
	// gradual is whether tokens go back to the shared store bit by bit.
	gradual bool
}

// State says how the shared store stands.
type State struct {
	Shared  bool      // it is in use
	Since   time.Time // when it came into use, or went out of it
	Mode    Mode      // what becomes of requests while it is away
	Breaker string    // closed, open, half-open
	Cause   string    // why it is away; "" while it is in use
}

// State returns how the shared store stands.
func (s *Store) State() State {
	ph := s.phase.Load()
	state := State{
		Shared: ph.way != away, Since: ph.since, Mode: s.configured.Load().Mode, Breaker: s.breakerState().String(),
	}
	if ph.cause != nil {
		state.Cause = ph.cause.Error()
	}
	return state
}

// turn puts the phase that follows the one in force in its place, and returns the two.
func (s *Store) turn(following func(phase) phase) (was, is phase) {
	s.turning.Lock()
	defer s.turning.Unlock()
	was = *s.phase.Load()
	if is = following(was); is != was {
		s.phase.Store(&is)
	}
	return was, is
}

// owe notes that there is a token to be settled.
func (s *Store) owe() {
	if s.phase.Load().way != certain {
		return
	}
	s.turn(func(ph phase) phase {
		if ph.way == certain {
			ph.way = owing
		}
		return ph
	})
}

// doubt notes that the shared store may have been restarted, so quickly that the breaker saw nothing of it.
func (s *Store) doubt() {
	now := s.clock()
	s.turn(func(ph phase) phase {
		if ph.way == away || ph.way == doubtful && !s.told.Swap(false) {
			return ph // no token is settled
		}
		ph.way, ph.began, ph.gradual = doubtful, now, false
		ph.outage++
		return ph
	})
}

// leave has requests go by the shared store.
func (s *Store) leave() {
	now, cause := s.clock(), *s.cause.Load()
	_, is := s.turn(func(ph phase) phase {
		return phase{way: away, since: now, outage: ph.outage + 1, began: now, cause: cause}
	})
	s.metrics.outages.Inc()
	s.logger.Warn("the shared store of budgets is away", slog.String("mode", string(s.configured.Load().Mode)), slog.Any("cause", is.cause))
	select {
	case s.left <- struct{}{}:
	default: // Run has not yet seen the last time, and will see this one with it
	}
}

// comeBack has requests go to the shared store again, some tokens after the others.
func (s *Store) comeBack() {
	now := s.clock()
	was, _ := s.turn(func(ph phase) phase {
		return phase{way: doubtful, since: now, outage: ph.outage, began: ph.began, gradual: true}
	})
	awayFor := now.Sub(was.since).Round(time.Millisecond)
	s.logger.Info("the shared store of budgets is back", slog.String("away_for", awayFor.String()), slog.Any("cause", was.cause))
}

// follow follows the breaker. It is called under the breaker's lock, and must not ask it anything.
func (s *Store) follow(_ string, from, to gobreaker.State) {
	s.breakerIs.Store(int32(to))
	switch {
	case from == gobreaker.StateClosed:
		s.leave()
	case to == gobreaker.StateClosed:
		s.comeBack()
	}
}

func (s *Store) breakerState() gobreaker.State { return gobreaker.State(s.breakerIs.Load()) }
