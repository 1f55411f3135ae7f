package service_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/test/testkit"
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

// A walk returns each row that existed at its start once and in order, also if rows are written meanwhile or share one nanosecond.
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
				for _, tick := range rapid.SliceOfN(rapid.Int64Range(0, 3), 1, 12).Draw(rt, "ticks") {
					w.insert(s, own, start().Add(-time.Hour).UnixNano()+tick)
				}
				expected, _, _ := w.page(s, own.id, 100, "")
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

func TestRowsAreOrderedByNanosecondAndID(t *testing.T) {
	for _, w := range walks() {
		t.Run(w.name, func(t *testing.T) {
			s := startSystem(t)
			own := s.team("harbour")
			at := start().Add(-time.Hour).UnixNano() // before the entries of the team's creation
			older := w.insert(s, own, at)
			twins := []string{w.insert(s, own, at+1), w.insert(s, own, at+1)}
			slices.Sort(twins)
			newest := w.insert(s, own, at+2)
			ids, _, _ := w.page(s, own.id, 100, "")
			want := []string{newest, twins[1], twins[0], older}
			if got := ids[len(ids)-len(want):]; !slices.Equal(got, want) {
				t.Errorf("order %v, want %v", got, want)
			}
		})
	}
}

func TestUnrecognisedCursorReturnsTheFirstPage(t *testing.T) {
	s := startSystem(t)
	ours, theirs := s.team("harbour"), s.team("lighthouse")
	for range 3 {
		s.create(newIncident(ours, "Ours"))
		s.create(newIncident(theirs, "Theirs"))
	}
	for _, w := range walks() {
		first, own, _ := w.page(s, ours.id, 2, "")
		_, foreign, _ := w.page(s, theirs.id, 2, "")
		cursors := map[string]string{
			"garbage": "!", "not base64": "aGVsbG8=", "too short": "aQ", "long": strings.Repeat("A", 600),
			"another team's": foreign, "tampered": own[:len(own)-1] + "_",
		}
		for _, other := range walks() {
			if other.name != w.name {
				_, cursors["another list's"], _ = other.page(s, ours.id, 2, "")
			}
		}
		for name, cursor := range cursors {
			ids, _, ignored := w.page(s, ours.id, 2, cursor)
			if !ignored || !slices.Equal(ids, first) {
				t.Errorf("%s, %s cursor: page %v, ignored %v; want the first page %v", w.name, name, ids, ignored, first)
			}
		}
		if _, _, ignored := w.page(s, ours.id, 2, own); ignored {
			t.Errorf("%s: the list's own cursor was ignored", w.name)
		}
	}
}

func TestPageSizesOutOfBoundsAreInvalid(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	for _, size := range []int32{0, -1, 101} {
		_, err := s.incident.ListIncidents(t.Context(), &incidentv1.ListIncidentsRequest{TeamId: own.id, PageSize: size})
		if fields := violated(t, err); fields["page_size"] == "" {
			t.Errorf("incidents, page size %d: %v", size, fields)
		}
		_, err = s.audit.ListAuditEntries(t.Context(), &auditv1.ListAuditEntriesRequest{TeamId: own.id, PageSize: size})
		if fields := violated(t, err); fields["page_size"] == "" {
			t.Errorf("audit, page size %d: %v", size, fields)
		}
	}
}

func TestActionPrefixIsLiteral(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	s.insert(func(ctx context.Context, q *query.Queries) error {
		for i, action := range []string{"incident.created", "incident_x.created", "incidents.merged", "100%.done", "Incident.created"} {
			err := q.InsertAuditEntry(ctx, query.InsertAuditEntryParams{
				ID: uuid.NewString(), TeamID: own.id, ActionType: action, CreatedAt: int64(i),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	for prefix, want := range map[string][]string{
		"incident.": {"incident.created"},
		"incident":  {"incidents.merged", "incident_x.created", "incident.created"},
		"incident_": {"incident_x.created"},
		"100%":      {"100%.done"},
		"%":         nil,
		"I":         {"Incident.created"},
		"\x00":      nil,
	} {
		page, err := s.audit.ListAuditEntries(t.Context(),
			&auditv1.ListAuditEntriesRequest{TeamId: own.id, PageSize: 100, ActionPrefix: prefix})
		testkit.Must(t, err)
		var got []string
		for _, entry := range page.GetEntries() {
			got = append(got, entry.GetActionType())
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q: %v, want %v", prefix, got, want)
		}
	}
}
