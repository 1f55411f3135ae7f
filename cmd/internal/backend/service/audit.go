package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
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
	after, found, err := auditRow(ctx, q, r)
	if err != nil {
		return nil, false, fmt.Errorf("look up the cursor: %w", err)
	}
	page := auditQuery{q: q, team: r.GetTeamId(), limit: int64(r.GetPageSize()) + 1}
	if found {
		page.after = &after
	}
	if r.GetActionPrefix() == "" {
		rows, err = page.all(ctx)
	} else {
		rows, err = page.withPrefix(ctx, r.GetActionPrefix())
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
