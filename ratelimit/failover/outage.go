package failover

import (
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
)

// steadyAfter is how long the shared store must work without a failure before the next outage is another one.
const steadyAfter = 10 * time.Second

// A phase is whether the shared store is in use. It is never modified, but replaced.
type phase struct {
	away  bool
	since time.Time     // when the store came into use, or when its outage began
	cause error         // of an outage
	epoch uint64        // goes up whenever the shared store may have lost accounts
	pause time.Duration // by Store.now: until then, other gateways may not have uploaded what they admitted
}

// A State is the state of the shared store.
type State struct {
	Mode    ratelimit.Mode // ModeShared while it is in use, else the mode of the settings
	Since   time.Time      // when it came into use, or its outage began; use for less than ten seconds does not end an outage
	Breaker string         // closed, open, half-open
	Cause   string         // why it is not in use; "" while it is
}

// State returns the state of the shared store.
func (s *Store) State() State {
	ph := s.phase.Load()
	state := State{Mode: ratelimit.ModeShared, Since: ph.since, Breaker: s.breakerState().String()}
	if ph.away {
		state.Mode = s.configured.Load().Mode
		state.Cause = ph.cause.Error()
	}
	return state
}

// failing records a failure of the shared store, before the breaker does.
func (s *Store) failing(c class) {
	s.phaseMu.Lock()
	defer s.phaseMu.Unlock()
	now := s.clock()
	if now.Sub(s.lastFailure) >= steadyAfter {
		s.firstBegan = time.Time{}
	}
	s.lastFailure = now
	if ph := *s.phase.Load(); c == refused && !ph.away { // perhaps a restart that the breaker does not see
		ph.epoch++
		s.phase.Store(&ph)
	}
}

// follow follows the breaker. It is called under the breaker's lock, and must not call the breaker.
func (s *Store) follow(_ string, from, to gobreaker.State) {
	s.breakerIs.Store(int32(to))
	switch {
	case from == gobreaker.StateClosed:
		s.beginOutage()
	case to == gobreaker.StateClosed:
		s.endOutage()
	}
}

func (s *Store) beginOutage() {
	s.phaseMu.Lock()
	defer s.phaseMu.Unlock()
	now, cause := s.clock(), *s.cause.Load()
	if s.firstBegan.IsZero() {
		s.firstBegan = now
	}
	s.began = now
	s.phase.Store(&phase{away: true, since: s.firstBegan, cause: cause, epoch: s.phase.Load().epoch + 1})
	s.metrics.outages.Inc()
	s.logger.Warn("shared rate limit store not in use",
		slog.String("mode", string(s.configured.Load().Mode)), slog.Any("cause", cause))
	select {
	case s.outage <- struct{}{}:
	default: // Run has not read the last one
	}
}

func (s *Store) endOutage() {
	s.phaseMu.Lock()
	defer s.phaseMu.Unlock()
	now, was := s.clock(), s.phase.Load()
	s.lastFailure = now
	s.phase.Store(&phase{since: now, epoch: was.epoch, pause: s.now() + s.configured.Load().pause()})
	s.logger.Info("shared rate limit store in use again",
		slog.String("away_for", now.Sub(s.began).Round(time.Millisecond).String()), slog.Any("cause", was.cause))
}

func (s *Store) breakerState() gobreaker.State { return gobreaker.State(s.breakerIs.Load()) }
