package breaker

import "time"

// An attribution decides whether failed attempts are failures of the service, or only of one team,
// whose data may be the cause. A success of an attempt that started later shows that the service
// works.
//
// Its size does not depend on the number of teams.
type attribution struct {
	window time.Duration

	successes latestStarts

	// Failures since the latest success: at first of one team. When another team or the service
	// fails too, the count restarts at 1 and shared is set.
	failures int
	since    time.Time // when the first of the failures was recorded
	team     string    // of the first failure
	shared   bool      // the failures are of the service, or of several teams
}

func (a *attribution) succeeded(team string, start time.Time) {
	a.successes.add(team, start)
	a.failures = 0
}

// failed adds a failure. counts reports whether the failure counts toward opening the breaker.
// owner is the team if only its calls fail, "" if all teams are concerned. A failure of one team
// counts only if no attempt of another team that started within the window has succeeded.
func (a *attribution) failed(team string, ofService bool, start, now time.Time) (owner string, counts bool) {
	if a.refutes(start) {
		return "", ofService
	}
	shared := ofService || a.failures > 0 && (a.shared || team != a.team)
	if a.failures == 0 || shared != a.shared {
		a.failures, a.since, a.team, a.shared = 0, now, team, shared
	}
	a.failures++
	if shared {
		return "", true
	}
	return team, now.Sub(a.successes.except(team)) > a.window
}

// refutes reports whether an attempt succeeded that started later than a failed attempt.
func (a *attribution) refutes(start time.Time) bool { return a.successes.at.After(start) }

// allFail reports whether enough attempts have failed, for long enough, since the latest success.
// It returns false if a success refutes the failure of the attempt that began at start.
func (a *attribution) allFail(s Settings, start, now time.Time) bool {
	return !a.refutes(start) && a.failures >= s.MinRequests && now.Sub(a.since) >= minOutage
}

// latestStarts has the start of the latest attempt, with its team, and the start of the latest
// attempt of any other team.
type latestStarts struct {
	team    string    // of the latest attempt
	at      time.Time // when the latest attempt started
	otherAt time.Time // when the latest attempt of any other team started; zero for none
}

// add adds an attempt. Attempts can be added in any order.
func (l *latestStarts) add(team string, at time.Time) {
	switch {
	case team == l.team:
		l.at = later(l.at, at)
	case at.After(l.at):
		l.team, l.at, l.otherAt = team, at, l.at
	default:
		l.otherAt = later(l.otherAt, at)
	}
}

// except returns the start of the latest attempt of any other team; zero for none.
func (l *latestStarts) except(team string) time.Time {
	if team == l.team {
		return l.otherAt
	}
	return l.at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
