package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"opsgate/cmd/internal/backend/store/query"
	auditv1 "opsgate/proto/ops/audit/v1"
)

type auditService struct {
	auditv1.UnimplementedAuditServiceServer
	*Backend
}

func (s *auditService) ListAuditEntries(
	ctx context.Context, r *auditv1.ListAuditEntriesRequest,
) (*auditv1.ListAuditEntriesResponse, error) {
	response := &auditv1.ListAuditEntriesResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		page, err := readPage(r, pageQueries[query.AuditEntry]{
			cursor: auditCursor,
			find: func(id string) (query.AuditEntry, error) {
				return q.GetAuditEntry(ctx, query.GetAuditEntryParams{TeamID: r.GetTeamId(), ID: id})
			},
			place: func(row query.AuditEntry) place { return place{row.CreatedAt, row.ID} },
			list: func(after place, limit int64) ([]query.AuditEntry, error) {
				all := query.ListAuditEntriesParams{TeamID: r.GetTeamId(), CreatedAt: after.createdAt, ID: after.id,
					PageSize: limit}
				if r.GetActionPrefix() == "" {
					return q.ListAuditEntries(ctx, all)
				}
				return listWithPrefix(ctx, q, all, r.GetActionPrefix())
			},
		})
		response.Entries, response.NextCursor, response.CursorIgnored = convert(page.rows, auditMessage), page.next,
			page.cursorIgnored
		return err
	})
}

// listWithPrefix returns the entries of all actions with the prefix, which is compared by bytes. It
// reads one page of each such action, and there are few, so it takes the same time in a large log.
func listWithPrefix(
	ctx context.Context, q *query.Queries, all query.ListAuditEntriesParams, prefix string,
) (rows []query.AuditEntry, err error) {
	const least = "\x00" // text+least is the first text after text
	for from := prefix; ; {
		action, err := q.NextAction(ctx, query.NextActionParams{TeamID: all.TeamID, ActionType: from})
		if errors.Is(err, sql.ErrNoRows) || err == nil && !strings.HasPrefix(action, prefix) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		of, err := q.ListAuditEntriesOfAction(ctx, query.ListAuditEntriesOfActionParams{
			TeamID: all.TeamID, ActionType: action, CreatedAt: all.CreatedAt, ID: all.ID, PageSize: all.PageSize,
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, of...)
		slices.SortFunc(rows, newestFirst)
		rows = rows[:min(len(rows), int(all.PageSize))]
		from = action + least
	}
}

func newestFirst(x, y query.AuditEntry) int {
	return cmp.Or(cmp.Compare(y.CreatedAt, x.CreatedAt), cmp.Compare(y.ID, x.ID))
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
