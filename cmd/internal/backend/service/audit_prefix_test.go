package service_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
)

// A walk over the entries with a prefix is the walk over all entries without the others.
func TestActionPrefixIsLiteral(t *testing.T) {
	s, own := startTeam(t)
	actions := []string{"incident.created", "incident.update_posted", "incidents", "Incident.created", "i", "😀.created", "incident_", "incident/x", "100%.done", "%", "\x00", ""}
	s.insert(func(ctx context.Context, q *query.Queries) error {
		for i := range 66 {
			err := q.InsertAuditEntry(ctx, query.InsertAuditEntryParams{
				ID: uuid.NewString(), TeamID: own.id, ActionType: actions[i%len(actions)], CreatedAt: int64(i / 5),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	walk := func(rt *rapid.T, prefix string, size int32) (ids []string) {
		for r := (&auditv1.ListAuditEntriesRequest{TeamId: own.id, PageSize: size, ActionPrefix: prefix}); ; {
			page, err := s.audit.ListAuditEntries(t.Context(), r)
			if err != nil || page.GetCursorIgnored() {
				rt.Fatalf("%v, %v", page, err)
			}
			for _, e := range page.GetEntries() {
				if strings.HasPrefix(e.GetActionType(), prefix) {
					ids = append(ids, e.GetId())
				} else if prefix != "" {
					rt.Fatalf("%q has not the prefix %q", e.GetActionType(), prefix)
				}
			}
			if r.Cursor = page.GetNextCursor(); r.GetCursor() == "" {
				return ids
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		action := []rune(rapid.SampledFrom(actions[:len(actions)-1]).Draw(rt, "action"))
		prefix := string(action[:rapid.IntRange(0, len(action)).Draw(rt, "length")])
		var want []string
		page, err := s.audit.ListAuditEntries(t.Context(), &auditv1.ListAuditEntriesRequest{TeamId: own.id, PageSize: 100})
		testkit.Must(t, err)
		for _, e := range page.GetEntries() {
			if strings.HasPrefix(e.GetActionType(), prefix) {
				want = append(want, e.GetId())
			}
		}
		if got := walk(rt, prefix, rapid.Int32Range(1, 7).Draw(rt, "size")); !slices.Equal(got, want) {
			rt.Fatalf("prefix %q: %v, want %v", prefix, got, want)
		}
	})
}
