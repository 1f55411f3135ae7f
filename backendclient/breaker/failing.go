package breaker

import (
	"maps"
	"time"
)

// maxFailingTeams is the maximum number of failing teams in memory for each method.
const maxFailingTeams = 1024

// failingTeams are the teams whose latest attempt failed within the window. While a breaker is not
// closed, each failing team may make one attempt every OpenFor, so that no team uses up the
// attempts of another team.
type failingTeams struct {
	settings Settings
	latest   map[string]time.Time // the start of the latest attempt that failed or was tried
}

func newFailingTeams(s Settings) failingTeams {
	return failingTeams{settings: s, latest: make(map[string]time.Time)}
}

func (f *failingTeams) isFailing(team string, now time.Time) bool {
	at, recorded := f.latest[team]
	return recorded && now.Sub(at) <= f.settings.Window
}

// wait returns the time until the next attempt of a team; zero for a team that is not failing.
func (f *failingTeams) wait(team string, now time.Time) time.Duration {
	if !f.isFailing(team, now) {
		return 0
	}
	return max(0, f.latest[team].Add(f.settings.OpenFor).Sub(now))
}

// tried records an attempt that wait has allowed.
func (f *failingTeams) tried(team string, start time.Time) {
	if f.isFailing(team, start) {
		f.latest[team] = start
	}
}

// undo allows another attempt in place of an inconclusive attempt.
func (f *failingTeams) undo(team string, start time.Time) {
	if f.latest[team].Equal(start) {
		f.latest[team] = start.Add(-f.settings.OpenFor)
	}
}

func (f *failingTeams) succeeded(team string) { delete(f.latest, team) }

// failed adds a team. If there are too many teams, it removes the team that failed least recently,
// and all teams that failed more than a window ago.
func (f *failingTeams) failed(team string, start time.Time) {
	at, failing := f.latest[team]
	if !failing && len(f.latest) >= maxFailingTeams {
		f.makeRoom(start)
	}
	f.latest[team] = later(at, start)
}

func (f *failingTeams) makeRoom(now time.Time) {
	var oldest string
	for team, at := range f.latest {
		if oldest == "" || at.Before(f.latest[oldest]) {
			oldest = team
		}
	}
	delete(f.latest, oldest)
	maps.DeleteFunc(f.latest, func(_ string, at time.Time) bool { return now.Sub(at) > f.settings.Window })
}
