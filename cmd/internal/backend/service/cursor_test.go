package service_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A walk is a list that is read page by page.
type walk struct {
	name string
	// insert writes a row with a time in nanoseconds, and returns its id.
	insert func(s *system, t team, at int64) string
	// page returns the ids of a page, the next cursor, and whether the cursor was ignored.
	page func(s *system, team string, size int32, cursor string) (ids []string, next string, ignored bool)
	// write writes a new row through the API.
	write func(s *system, t team)
}

func walks() []walk {
	return []walk{
		{name: "incidents", insert: insertIncident, page: incidentPage, write: func(s *system, t team) {
			s.create(newIncident(t, "Meanwhile"))
		}},
		{name: "audit", insert: insertAuditEntry, page: auditPage, write: func(s *system, t team) {
			s.create(newIncident(t, "Meanwhile"))
		}},
	}
}

func insertIncident(s *system, t team, at int64) string {
	id := uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertIncident(ctx, query.InsertIncidentParams{
			ID: id, TeamID: t.id, Title: "Laid", Status: "monitoring", Impact: "none", StartedAt: -at, CreatedAt: at,
		})
	})
	return id
}

func incidentPage(s *system, team string, size int32, cursor string) (ids []string, next string, ignored bool) {
	s.t.Helper()
	page, err := s.incident.ListIncidents(s.t.Context(),
		&incidentv1.ListIncidentsRequest{TeamId: team, PageSize: size, Cursor: cursor})
	testkit.Must(s.t, err)
	for _, incident := range page.GetIncidents() {
		ids = append(ids, incident.GetId())
	}
	return ids, page.GetNextCursor(), page.GetCursorIgnored()
}

func insertAuditEntry(s *system, t team, at int64) string {
	id := uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertAuditEntry(ctx, query.InsertAuditEntryParams{ID: id, TeamID: t.id, ActionType: "server.created", CreatedAt: at})
	})
	return id
}

func auditPage(s *system, team string, size int32, cursor string) (ids []string, next string, ignored bool) {
	s.t.Helper()
	page, err := s.audit.ListAuditEntries(s.t.Context(),
		&auditv1.ListAuditEntriesRequest{TeamId: team, PageSize: size, Cursor: cursor})
	testkit.Must(s.t, err)
	for _, entry := range page.GetEntries() {
		ids = append(ids, entry.GetId())
	}
	return ids, page.GetNextCursor(), page.GetCursorIgnored()
}

// A walk returns each row that existed at its start once and in order, also if rows are written
// meanwhile or share one nanosecond.
func TestWritesDoNotShiftLaterPages(t *testing.T) {
	for _, w := range walks() {
		t.Run(w.name, func(t *testing.T) {
			s := startSystem(t)
			teams := 0
			rapid.Check(t, func(rt *rapid.T) {
				teams++
				owner, err := s.backend.CreateTeam(t.Context(), fmt.Sprint("team ", teams), "ai")
				testkit.Must(t, err)
				own := team{id: owner.ID}
				ticks := map[string]int64{} // by id; the entry of the team's creation has none, and is the newest
				for _, tick := range rapid.SliceOfN(rapid.Int64Range(-4, -1), 1, 12).Draw(rt, "ticks") {
					ticks[w.insert(s, own, start().Add(-time.Hour).UnixNano()+tick)] = tick
				}
				expected, _, _ := w.page(s, own.id, 100, "")
				newestFirst := func(a, b string) int { return cmp.Or(cmp.Compare(ticks[b], ticks[a]), cmp.Compare(b, a)) }
				if len(expected) < len(ticks) || !slices.IsSortedFunc(expected, newestFirst) {
					rt.Fatalf("%v are not ordered by time and id: %v", expected, ticks)
				}
				size := rapid.Int32Range(1, 5).Draw(rt, "size")
				var walked []string
				for cursor, first := "", true; first || cursor != ""; first = false {
					ids, next, ignored := w.page(s, own.id, size, cursor)
					if ignored || len(ids) > int(size) {
						rt.Fatalf("page of %d: %v, ignored %v", size, ids, ignored)
					}
					walked, cursor = append(walked, ids...), next
					for range rapid.IntRange(0, 2).Draw(rt, "writes") {
						w.write(s, own)
					}
				}
				if !slices.Equal(walked, expected) {
					rt.Fatalf("walked %v\nwant   %v", walked, expected)
				}
			})
		})
	}
}
