package backendclient

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An attribution distinguishes a service that does not answer in time from a team whose own calls are slow. It attributes timeouts to the
// team of the attempt, and all other failures to the service.
//
// Its size does not depend on the number of teams.
type attribution struct {
	window time.Duration

	mu                sync.Mutex
	succeeded, failed latest // failed: the failures that counted, with team "" for those of the service
}

// record records the result of an attempt, as classify returned it, and returns the result for the breaker. That is errInconclusive for a
// timeout if an attempt of another team that began later succeeded, and the last failure was a timeout of the same team. So while other
// teams' attempts succeed, the number of counted timeouts of one team is at most one more than that of all other failures.
func (a *attribution) record(c *call, failure error) error {
	if failure == errInconclusive { //nolint:errorlint // classify does not wrap it
		return failure
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if failure == nil {
		a.succeeded.add(c.team, c.attemptStart)
		return nil
	}
	team := c.team
	if status.Code(failure) != codes.DeadlineExceeded {
		team = ""
	}
	if team != "" && team == a.failed.team && a.succeeded.except(team).After(c.attemptStart) {
		return errInconclusive
	}
	a.failed.add(team, c.attemptStart)
	return failure
}

// onlyTeam returns the team whose timeouts are all the failures in the window; "" if there are others.
func (a *attribution) onlyTeam() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.failed.otherAt) <= a.window {
		return ""
	}
	return a.failed.team
}

// latest is the start of the latest attempt of a kind, with its team, and of the latest one of any other team.
type latest struct {
	team        string
	at, otherAt time.Time
}

// add adds an attempt. Attempts can be added in any order.
func (l *latest) add(team string, at time.Time) {
	switch {
	case team == l.team:
		l.at = later(l.at, at)
	case at.After(l.at):
		l.team, l.at, l.otherAt = team, at, l.at
	default:
		l.otherAt = later(l.otherAt, at)
	}
}

// except returns the start of the latest attempt of any team but the given one; zero for none.
func (l *latest) except(team string) time.Time {
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
