package failover

import (
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
)

// steadyAfter is how long the shared store must work without a failure for the next outage to be reported as a new one.
const steadyAfter = 10 * time.Second

// A storeState is the state of the shared store as requests read it. It is immutable.
type storeState struct {
	outage      bool
	since       time.Time     // when the store came into use, or when its outage began
	cause       error         // of the outage
	epoch       uint32        // incremented when the shared store may have lost accounts
	pausedUntil time.Duration // by Store.now; until then this gateway decides, as other gateways may still have admissions to upload
}

// A State is the state of the shared store as the admin page shows it.
type State struct {
	Mode    ratelimit.Mode // ModeShared while it is in use, else the mode of the settings
	Since   time.Time      // when it came into use, or when its outage began; outages less than ten seconds apart count as one
	Breaker string         // closed, open, half-open
	Cause   string         // why it is not in use; "" while it is
}

// State returns the state of the shared store.
func (s *Store) State() State {
	st := s.state.Load()
	state := State{Mode: ratelimit.ModeShared, Since: st.since, Breaker: s.breakerState().String()}
	if st.outage {
		state.Mode, state.Cause = s.configured.Load().Mode, st.cause.Error()
	}
	return state
}

// recordCountedFailure records when the shared store failed. It may have lost accounts if it refused the call.
func (s *Store) recordCountedFailure(kind string) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	now, st := s.clock(), *s.state.Load()
	if now.Sub(s.lastFailure) >= steadyAfter {
		s.firstOutageStart = time.Time{}
	}
	s.lastFailure = now
	if kind == refused && !st.outage { // perhaps a restart too short for the breaker
		st.epoch++
		s.state.Store(&st)
	}
}

// onStateChange is called by the breaker under its lock, and must not call the breaker.
func (s *Store) onStateChange(_ string, from, to gobreaker.State) {
	s.breakerCurrent.Store(int32(to))
	switch {
	case from == gobreaker.StateClosed:
		s.beginOutage()
	case to == gobreaker.StateClosed:
		s.endOutage()
	}
}

func (s *Store) beginOutage() {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	now, cause := s.clock(), *s.cause.Load()
	if s.firstOutageStart.IsZero() {
		s.firstOutageStart = now
	}
	s.outageStart = now
	s.state.Store(&storeState{outage: true, since: s.firstOutageStart, cause: cause, epoch: s.state.Load().epoch + 1})
	s.metrics.outages.Inc()
	s.logger.Warn("shared rate limit store not in use",
		slog.String("mode", string(s.configured.Load().Mode)), slog.Any("cause", cause))
	select {
	case s.outageBegan <- struct{}{}:
	default: // Run has not received the last one
	}
}

func (s *Store) endOutage() {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	now, before := s.clock(), s.state.Load()
	s.lastFailure = now // an outage is a failure until it ends
	s.state.Store(&storeState{since: now, epoch: before.epoch, pausedUntil: s.now() + s.configured.Load().pause()})
	s.logger.Info("shared rate limit store in use again",
		slog.String("lasted", now.Sub(s.outageStart).Round(time.Millisecond).String()), slog.Any("cause", before.cause))
}

func (s *Store) breakerState() gobreaker.State { return gobreaker.State(s.breakerCurrent.Load()) }
