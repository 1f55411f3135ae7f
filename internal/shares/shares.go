// Package shares divides a bounded resource, such as in-flight slots or bytes, between the teams
// that use it, so that no team takes it from the others.
package shares

import "sync"

// A Pool is a resource of units. A team takes n units if it then holds at most n more than are
// free. So
//
//   - one team alone takes at most half of the units, and half of n;
//   - a team that holds no unit is refused only if fewer than n are free;
//   - if k teams ask for more single units than they get, each holds 1/(k+1) of the units, once
//     earlier ones are released.
//
// What belongs to no team takes any free units. The number of teams in memory is bounded by the
// units. The zero Pool is one of which nothing is taken. It is safe for concurrent use.
type Pool struct {
	mu     sync.Mutex
	taken  int64
	byTeam map[string]int64 // teams that hold units
}

// A Result is the result of [Pool.Take].
type Result int

// Results of [Pool.Take]. Only Taken takes units.
const (
	Taken        Result = iota
	Exhausted           // too few units are free
	ShareReached        // the team holds too many of them
)

// Take takes n units of limit for a team, "" for none.
func (p *Pool) Take(team string, n, limit int64) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := limit - p.taken - n
	switch {
	case left < 0:
		return Exhausted
	case team != "":
		held := p.byTeam[team]
		if held > left {
			return ShareReached
		}
		if p.byTeam == nil {
			p.byTeam = make(map[string]int64)
		}
		p.byTeam[team] = held + n
	}
	p.taken += n
	return Taken
}

// Release releases n units that were taken for the team.
func (p *Pool) Release(team string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= n
	if team == "" {
		return
	}
	if held := p.byTeam[team]; held > n {
		p.byTeam[team] = held - n
	} else {
		delete(p.byTeam, team)
	}
}

// Taken returns the number of units that are taken.
func (p *Pool) Taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
