package refbackend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"opsgate/cmd/internal/refbackend/store"
	"opsgate/cmd/internal/refbackend/store/query"
	auditv1 "opsgate/proto/ops/audit/v1"
)

type auditService struct {
	auditv1.UnimplementedAuditServiceServer
	store *store.Store
}

func (s *auditService) ListAuditEntries(
	ctx context.Context, r *auditv1.ListAuditEntriesRequest,
) (*auditv1.ListAuditEntriesResponse, error) {
	var problems violations
	problems.pageSize(r.GetPageSize())
	if err := problems.err(); err != nil {
		return nil, err
	}
	response := &auditv1.ListAuditEntriesResponse{}
	return response, s.store.Read(ctx, func(q *query.Queries) error {
		rows, ignored, err := auditPage(ctx, q, r)
		if err != nil {
			return err
		}
		response.CursorIgnored = ignored
		if more := len(rows) > int(r.GetPageSize()); more {
			rows = rows[:r.GetPageSize()]
			if response.NextCursor, err = auditCursor.encode(rows[len(rows)-1].ID); err != nil {
				return fmt.Errorf("make a cursor: %w", err)
			}
		}
		response.Entries = convert(rows, auditMessage)
		return nil
	})
}

// auditPage returns at most one row more than the page holds, and whether the cursor was ignored.
func auditPage(
	ctx context.Context, q *query.Queries, r *auditv1.ListAuditEntriesRequest,
) (rows []query.AuditEntry, ignored bool, err error) {
	limit := int64(r.GetPageSize()) + 1
	after, found, err := auditRow(ctx, q, r)
	if err != nil {
		return nil, false, fmt.Errorf("look up the cursor: %w", err)
	}
	if found {
		rows, err = q.ListAuditEntriesAfter(ctx, query.ListAuditEntriesAfterParams{
			TeamID: r.GetTeamId(), ActionPrefix: r.GetActionPrefix(), PageSize: limit,
			CreatedAt: after.CreatedAt, ID: after.ID,
		})
	} else {
		rows, err = q.ListAuditEntries(ctx, query.ListAuditEntriesParams{
			TeamID: r.GetTeamId(), ActionPrefix: r.GetActionPrefix(), PageSize: limit,
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the audit entries: %w", err)
	}
	return rows, r.GetCursor() != "" && !found, nil
}

// auditRow returns the row that the cursor names, and whether it is a row of the team.
func auditRow(
	ctx context.Context, q *query.Queries, r *auditv1.ListAuditEntriesRequest,
) (row query.AuditEntry, found bool, err error) {
	id, ok := auditCursor.decode(r.GetCursor())
	if !ok {
		return query.AuditEntry{}, false, nil
	}
	row, err = q.GetAuditEntry(ctx, query.GetAuditEntryParams{TeamID: r.GetTeamId(), ID: id})
	if errors.Is(err, sql.ErrNoRows) {
		return query.AuditEntry{}, false, nil
	}
	return row, err == nil, err
}

func auditMessage(row query.AuditEntry) *auditv1.AuditEntry {
	return &auditv1.AuditEntry{
		Id:           row.ID,
		ActionType:   row.ActionType,
		ResourceType: row.ResourceType,
		ResourceId:   row.ResourceID,
		ActorId:      row.ActorID,
		IpAddress:    row.IpAddress,
		CreatedAt:    timestamp(row.CreatedAt),
	}
}

// An action is one change in a team, for the audit log. Its kind is `<resource>.<verb>`.
type action struct {
	team, kind, resourceID      string
	actor, ipAddress, requestID string
	at                          int64
}

// record writes the audit entry, in the transaction of the action.
func (a action) record(ctx context.Context, q *query.Queries) error {
	id, err := newID()
	if err != nil {
		return fmt.Errorf("create the id of an audit entry: %w", err)
	}
	resource, _, _ := strings.Cut(a.kind, ".")
	err = q.InsertAuditEntry(ctx, query.InsertAuditEntryParams{
		ID: id, TeamID: a.team, ActionType: a.kind, ResourceType: resource, ResourceID: a.resourceID,
		ActorID: a.actor, IpAddress: a.ipAddress, RequestID: a.requestID, CreatedAt: a.at,
	})
	if err != nil {
		return fmt.Errorf("write the audit entry: %w", err)
	}
	return nil
}

// timeOfWrite returns the current time, or one nanosecond after the team's last write if that is later (the clock may be coarse, or was
// set back). So the order of a team's rows by time is the order of the writes. The last audit entry has the time of the last write,
// because every write has an audit entry.
func timeOfWrite(ctx context.Context, q *query.Queries, clock func() time.Time, team string) (int64, error) {
	last, err := q.LastAuditTime(ctx, team)
	if errors.Is(err, sql.ErrNoRows) {
		return clock().UnixNano(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up the last write: %w", err)
	}
	return max(clock().UnixNano(), last+1), nil
}
