package shares

import (
	"testing"

	"pgregory.net/rapid"
)

// A holding is the units that a team has taken at once; "" is no team.
type holding struct {
	team string
	n    int64
}

// holdings is the oracle of a Pool.
type holdings []holding

func (h holdings) of(team string) (n int64) {
	for _, held := range h {
		if held.team == team {
			n += held.n
		}
	}
	return n
}

func (h holdings) all() (n int64) {
	for _, held := range h {
		n += held.n
	}
	return n
}

// A schedule of units that are taken and released. The limit changes as in a reload.
func TestUnitsAreSharedByTeams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.Int64Range(1, 40)
		limit := limits.Draw(t, "limit")
		var p Pool
		held := holdings{}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				next := holding{rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "team"), rapid.Int64Range(1, 5).Draw(t, "units")}
				free, own := limit-held.all(), held.of(next.team)
				got := p.Take(next.team, next.n, limit)
				switch {
				case free < next.n && got != Exhausted:
					t.Fatalf("%d units of %d free ones: %v", next.n, free, got)
				case free >= next.n && (next.team == "" || own == 0) && got != Taken:
					t.Fatalf("no team, or one that holds nothing, is refused %d of %d free units: %v", next.n, free, got)
				case free >= next.n && next.team != "" && (got == Taken) != (own <= free-next.n):
					t.Fatalf("a team with %d units takes %d of %d free ones: %v", own, next.n, free, got)
				case got == Taken:
					held = append(held, next)
				}
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is taken")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "holding")
				p.Release(held[i].team, held[i].n)
				held = append(held[:i], held[i+1:]...)
			},
			"reload": func(t *rapid.T) { limit = limits.Draw(t, "limit") },
			"": func(t *rapid.T) {
				if p.Taken() != held.all() {
					t.Fatalf("%d units are taken, want %d", p.Taken(), held.all())
				}
				for team, n := range p.byTeam {
					if team == "" || n == 0 || n != held.of(team) {
						t.Fatalf("team %q has %d units, want %d", team, n, held.of(team))
					}
				}
			},
		})
	})
}

// N teams always ask for more single units than they get, and all keep them equally long. Then each
// holds 1/(n+1) of the units, and as many are free.
func TestBusyTeamsHoldEqualShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 600).Draw(t, "limit")
		teams := []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(1, 5).Draw(t, "teams")]
		var p Pool
		held := holdings{} // the oldest first
		take := func() {
			for _, team := range teams {
				for p.Take(team, 1, limit) == Taken {
					held = append(held, holding{team, 1})
				}
			}
		}
		take()
		if first := held.of("a"); first != (limit+1)/2 {
			t.Fatalf("a team alone took %d of %d", first, limit)
		}
		for range 10 * limit {
			p.Release(held[0].team, 1)
			held = held[1:]
			take()
		}
		for _, team := range teams {
			if n, share := held.of(team), limit/int64(len(teams)+1); n < share || n > share+1 {
				t.Fatalf("%s holds %d of %d units: %v", team, n, limit, p.byTeam)
			}
		}
	})
}
