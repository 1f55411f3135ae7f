package failover

import (
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
)

// steadyAfter is how long the shared store must work without a failure for the next outage to be reported as a new one.
const steadyAfter = 10 * time.Second

// A phase is the state of the shared store as requests read it. It is immutable.
type phase struct {
	outage      bool
	since       time.Time     // when the store came into use, or when its outage began
	cause       error         // of the outage
	epoch       uint32        // incremented when the shared store may have lost accounts
	pausedUntil time.Duration // by Store.now; until then this gateway decides, as other gateways may still have admissions to upload
}

// A State is the state of the shared store.
type State struct {
	Mode    ratelimit.Mode // ModeShared while it is in use, else the mode of the settings
	Since   time.Time      // when it came into use, or when its outage began; outages less than ten seconds apart count as one
	Breaker string         // closed, open, half-open
	Cause   string         // why it is not in use; "" while it is
}

// State returns the state of the shared store.
func (s *Store) State() State {
	ph := s.phase.Load()
	state := State{Mode: ratelimit.ModeShared, Since: ph.since, Breaker: s.breakerState().String()}
	if ph.outage {
		state.Mode = s.configured.Load().Mode
		state.Cause = ph.cause.Error()
	}
	return state
}

// MayHaveLostAccounts reports whether the shared store may have lost accounts since this one was created. Then it may lack usage that only
// this store has.
func (s *Store) MayHaveLostAccounts() bool { return s.phase.Load().epoch > 0 }

// updatePhaseAfter updates the phase after a failure of the shared store: the store may have lost accounts if it refused the call.
func (s *Store) updatePhaseAfter(kind failureKind) {
	s.phaseMu.Lock()
	defer s.phaseMu.Unlock()
	now := s.clock()
	if now.Sub(s.lastFailure) >= steadyAfter {
		s.firstOutageStart = time.Time{}
	}
	s.lastFailure = now
	if ph := *s.phase.Load(); kind == refused && !ph.outage { // perhaps a restart too short for the breaker
		ph.epoch++
		s.phase.Store(&ph)
	}
}

// onStateChange is called by the breaker under its lock, and must not call the breaker.
func (s *Store) onStateChange(_ string, from, to gobreaker.State) {
	s.breakerNow.Store(int32(to))
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
	if s.firstOutageStart.IsZero() {
		s.firstOutageStart = now
	}
	s.outageStart = now
	s.phase.Store(&phase{outage: true, since: s.firstOutageStart, cause: cause, epoch: s.phase.Load().epoch + 1})
	s.metrics.outages.Inc()
	s.logger.Warn("shared rate limit store not in use",
		slog.String("mode", string(s.configured.Load().Mode)), slog.Any("cause", cause))
	select {
	case s.outages <- struct{}{}:
	default: // Run has not received the last one
	}
}

func (s *Store) endOutage() {
	s.phaseMu.Lock()
	defer s.phaseMu.Unlock()
	now, before := s.clock(), s.phase.Load()
	s.lastFailure = now
	s.phase.Store(&phase{since: now, epoch: before.epoch, pausedUntil: s.now() + s.configured.Load().pause()})
	s.logger.Info("shared rate limit store in use again",
		slog.String("lasted", now.Sub(s.outageStart).Round(time.Millisecond).String()), slog.Any("cause", before.cause))
}

func (s *Store) breakerState() gobreaker.State { return gobreaker.State(s.breakerNow.Load()) }
