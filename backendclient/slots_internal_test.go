package backendclient

import (
	"testing"

	"pgregory.net/rapid"
)

// holders is the oracle of slots: the teams of the calls in flight, with "" for calls without a team.
type holders []string

func (h holders) of(team string) (n int) {
	for _, holder := range h {
		if holder == team {
			n++
		}
	}
	return n
}

// A schedule of calls that begin and end. The limit changes as in a reload.
func TestSlotsAreSharedByTeams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		s, held := newSlots(), holders{}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				team := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "team")
				free, own := limit-len(held), held.of(team)
				refused := s.take(team, limit)
				switch {
				case free <= 0 && refused != ReasonOverloaded:
					t.Fatalf("with no free slot: %q", refused)
				case free > 0 && (team == "" || own == 0) && refused != "":
					t.Fatalf("a call without a team, or of a team without a call, is refused with %d free slots: %q", free, refused)
				case free > 0 && team != "" && (refused == "") != (own < free):
					t.Fatalf("a team with %d slots, %d free: %q", own, free, refused)
				case refused == "":
					held = append(held, team)
				}
			},
			"end": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("no call")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "call")
				s.release(held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"reload": func(t *rapid.T) { limit = rapid.IntRange(1, 40).Draw(t, "limit") },
			"": func(t *rapid.T) {
				if s.inFlight() != len(held) {
					t.Fatalf("%d slots are taken, %d calls in flight", s.inFlight(), len(held))
				}
				for team, n := range s.byTeam {
					if team == "" || n == 0 || n != held.of(team) {
						t.Fatalf("team %q has %d slots, %d calls", team, n, held.of(team))
					}
				}
			},
		})
	})
}

// N teams always have more calls than they get slots, and all calls take equally long. Then each holds 1/(n+1) of the slots, and as many are
// free.
func TestBusyTeamsHoldEqualShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 600).Draw(t, "limit")
		teams := []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(1, 5).Draw(t, "teams")]
		s, held := newSlots(), holders{} // the oldest call first
		begin := func() {
			for _, team := range teams {
				for s.take(team, limit) == "" {
					held = append(held, team)
				}
			}
		}
		begin()
		if first := held.of("a"); first != (limit+1)/2 {
			t.Fatalf("a team alone took %d of %d", first, limit)
		}
		for range 10 * limit {
			s.release(held[0])
			held = held[1:]
			begin()
		}
		for _, team := range teams {
			if n, share := held.of(team), limit/(len(teams)+1); n < share || n > share+1 {
				t.Fatalf("%s holds %d of %d slots: %v", team, n, limit, s.byTeam)
			}
		}
	})
}
