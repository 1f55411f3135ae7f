package backendclient

import "sync"

// slots are the in-flight slots of a service. A call takes a slot if one is free and its team holds fewer slots than are free. So
//
//   - one team alone takes at most half of the slots, rounded up;
//   - a team that holds no slot is refused only if no slot is free;
//   - if n teams make more calls than they get slots for, each holds 1/(n+1) of the slots, once earlier calls have ended.
//
// A call without a team takes any free slot. The number of teams in memory is bounded by the slots.
type slots struct {
	mu     sync.Mutex
	taken  int
	byTeam map[string]int // teams that hold slots
}

func newSlots() slots { return slots{byTeam: make(map[string]int)} }

// take takes one of limit slots for a call of a team. It returns "" if it took one, else ReasonOverloaded or
// ReasonTeamOverloaded.
func (s *slots) take(team string, limit int) (reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := limit - s.taken
	switch {
	case free <= 0:
		return ReasonOverloaded
	case team != "":
		held := s.byTeam[team]
		if held >= free {
			return ReasonTeamOverloaded
		}
		s.byTeam[team] = held + 1
	}
	s.taken++
	return ""
}

// release releases a slot that a call of the team took.
func (s *slots) release(team string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if team == "" {
		return
	}
	if held := s.byTeam[team]; held > 1 {
		s.byTeam[team] = held - 1
	} else {
		delete(s.byTeam, team)
	}
}

// inFlight returns the number of slots that are taken.
func (s *slots) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// teamOf returns the team that a request is for, "" for a request of the gateway itself.
func teamOf(request any) string {
	if r, ok := request.(interface{ GetTeamId() string }); ok {
		return r.GetTeamId()
	}
	return ""
}
