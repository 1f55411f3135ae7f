package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"opsgate/cmd/internal/backend/store/query"
)

// An auditQuery reads the newest audit entries of a team, after an entry if one is given.
type auditQuery struct {
	q     *query.Queries
	team  string
	limit int64
	after *query.AuditEntry
}

// all returns the entries of all actions.
func (a auditQuery) all(ctx context.Context) ([]query.AuditEntry, error) {
	if a.after == nil {
		return a.q.ListAuditEntries(ctx, query.ListAuditEntriesParams{TeamID: a.team, PageSize: a.limit})
	}
	return a.q.ListAuditEntriesAfter(ctx, query.ListAuditEntriesAfterParams{
		TeamID: a.team, CreatedAt: a.after.CreatedAt, ID: a.after.ID, PageSize: a.limit,
	})
}

// withPrefix returns the entries of all actions with the prefix, which is compared by bytes. It reads one page of each such action, and
// there are few, so it takes the same time in a large log.
func (a auditQuery) withPrefix(ctx context.Context, prefix string) (rows []query.AuditEntry, err error) {
	const least = "\x00" // text+least is the first text after text
	for from := prefix; ; {
		action, err := a.q.NextAction(ctx, query.NextActionParams{TeamID: a.team, ActionType: from})
		if errors.Is(err, sql.ErrNoRows) || err == nil && !strings.HasPrefix(action, prefix) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		of, err := a.ofAction(ctx, action)
		if err != nil {
			return nil, err
		}
		rows = append(rows, of...)
		slices.SortFunc(rows, newestFirst)
		rows = rows[:min(len(rows), int(a.limit))]
		from = action + least
	}
}

func (a auditQuery) ofAction(ctx context.Context, action string) ([]query.AuditEntry, error) {
	if a.after == nil {
		return a.q.ListAuditEntriesOfAction(ctx,
			query.ListAuditEntriesOfActionParams{TeamID: a.team, ActionType: action, PageSize: a.limit})
	}
	return a.q.ListAuditEntriesOfActionAfter(ctx, query.ListAuditEntriesOfActionAfterParams{
		TeamID: a.team, ActionType: action, CreatedAt: a.after.CreatedAt, ID: a.after.ID, PageSize: a.limit,
	})
}

func newestFirst(x, y query.AuditEntry) int {
	return cmp.Or(cmp.Compare(y.CreatedAt, x.CreatedAt), cmp.Compare(y.ID, x.ID))
}
