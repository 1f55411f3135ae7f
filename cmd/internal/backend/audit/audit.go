// Package audit writes the audit log of teams. An entry is written in the transaction of its
// action.
package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"opsgate/cmd/internal/backend/store/query"
)

// Actor and address of actions that have no caller: those of the service itself and of the command
// line of opsbackend.
const (
	ServiceActor   = "00000000-0000-0000-0000-000000000000"
	ServiceAddress = "127.0.0.1"
)

// An Action is one change in a team. Its kind is `<resource>.<verb>`.
type Action struct {
	Team, Kind, ResourceID      string
	Actor, IPAddress, RequestID string
	At                          int64 // in nanoseconds
}

// An Actor is the author of an action: the id of a person or a token, and the address of the
// caller.
type Actor struct{ ID, IPAddress string }

// Service is the actor of actions that have no caller: those of the service itself, and of the
// command line of opsbackend.
func Service() Actor { return Actor{ID: ServiceActor, IPAddress: ServiceAddress} }

// Action returns an action of the actor.
func (a Actor) Action(team, kind, resourceID string, at int64) Action {
	return Action{Team: team, Kind: kind, ResourceID: resourceID, At: at, Actor: a.ID, IPAddress: a.IPAddress}
}

// Record writes the entry of an action of the present, in the transaction of the action.
func (a Actor) Record(
	ctx context.Context, q *query.Queries, clock func() time.Time, team, kind, resourceID string,
) error {
	now, err := TimeOfWrite(ctx, q, clock, team)
	if err != nil {
		return err
	}
	return a.Action(team, kind, resourceID, now).Record(ctx, q)
}

// Record writes the entry, in the transaction of the action.
func (a Action) Record(ctx context.Context, q *query.Queries) error {
	resource, _, _ := strings.Cut(a.Kind, ".")
	err := q.InsertAuditEntry(ctx, query.InsertAuditEntryParams{
		ID: uuid.Must(uuid.NewV7()).String(), TeamID: a.Team, ActionType: a.Kind, ResourceType: resource,
		ResourceID: a.ResourceID,
		ActorID:    a.Actor, IpAddress: a.IPAddress, RequestID: a.RequestID, CreatedAt: a.At,
	})
	if err != nil {
		return fmt.Errorf("write the audit entry: %w", err)
	}
	return nil
}

// MaxAhead is how far ahead of the clock the times of later writes follow an earlier one. A write
// further ahead is from a clock that was set forward by mistake: it is not followed, because all
// times of the team would stand still until then.
const MaxAhead = 24 * time.Hour

// TimeOfWrite returns the current time, or one nanosecond after the team's last write if that is
// later (the clock may be coarse, or was set back), by at most [MaxAhead]. So the order of a team's
// rows by time is the order of the writes. The last audit entry has the time of the last write,
// because every write has an audit entry.
func TimeOfWrite(ctx context.Context, q *query.Queries, clock func() time.Time, team string) (int64, error) {
	now := clock()
	last, err := q.LastAuditTime(ctx, query.LastAuditTimeParams{TeamID: team, Bound: now.Add(MaxAhead).UnixNano()})
	if errors.Is(err, sql.ErrNoRows) {
		return now.UnixNano(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up the last write: %w", err)
	}
	return max(now.UnixNano(), last+1), nil
}
