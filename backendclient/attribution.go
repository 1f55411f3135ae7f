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

	mu        sync.Mutex
	succeeded latestStarts
	failed    latestStarts // of the failures that the breaker counted; the team of failures of the service is ""
}

// record records the result of an attempt, as classify returned it, and returns the result for the breaker. While attempts of other teams
// succeed, consecutive timeouts of one team count as one failure; the others are inconclusive.
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
	sameTeam := team != "" && team == a.failed.team
	// A call of another team that started after this attempt has already succeeded, so the service answers in time.
	othersSucceed := a.succeeded.except(team).After(c.attemptStart)
	if sameTeam && othersSucceed {
		return errInconclusive
	}
	a.failed.add(team, c.attemptStart)
	return failure
}

// onlyFailingTeam returns the team whose timeouts are all the failures in the window; "" if there are others.
func (a *attribution) onlyFailingTeam() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.failed.otherAt) <= a.window {
		return ""
	}
	return a.failed.team
}

// latestStarts has the start of the latest attempt of a kind, with its team, and the start of the latest one of any other team.
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

// except returns the start of the latest attempt of any team but the given one; zero for none.
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
