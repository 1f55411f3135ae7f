package service_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
)

// tables returns the tables that a write of the incident service may change.
func written() []string {
	return []string{
		"incidents", "incident_updates", "incident_components", "notifications", "idempotency_keys", "audit_entries",
	}
}

// Each case makes one of the inserts of a write fail.
func TestFailedWriteLeavesNoRows(t *testing.T) {
	for _, table := range written() {
		t.Run(table, func(t *testing.T) {
			s := startSystem(t)
			own := s.team("harbour")
			before := map[string]int{}
			for _, name := range written() {
				before[name] = s.count(name)
			}
			s.exec("CREATE TRIGGER refuse BEFORE INSERT ON " + table + " BEGIN SELECT RAISE(ABORT, 'refused'); END")
			r := keyed(own, "key-1")
			r.StatusPageId, r.ComponentIds = &own.page, []string{own.component}
			_, err := s.incident.CreateIncident(t.Context(), r)
			mustBe(t, err, codes.Internal)
			for _, name := range written() {
				if after := s.count(name); after != before[name] {
					t.Errorf("%s: %d rows, %d before", name, after, before[name])
				}
			}
			s.exec("DROP TRIGGER refuse")
			s.create(r) // the failure is not stored
		})
	}
}

// The audit log has the actor, the action and the address, and no text of the write.
func TestAuditLogContainsNoPayload(t *testing.T) {
	s, own := startTeam(t)
	const secret = "hunter2-correct-horse"
	r := newIncident(own, "Title "+secret)
	r.Message, r.IdempotencyKey = "Message "+secret, secret
	u := newUpdate(own, s.create(r).GetId())
	u.Message = secret
	_, err := s.incident.AddIncidentUpdate(t.Context(), u)
	testkit.Must(t, err)
	entries := storetest.Column[string](t, s.file(), `SELECT id || team_id || action_type || resource_type || resource_id || actor_id ||
		ip_address || request_id FROM audit_entries`)
	if len(entries) != 3 || strings.Contains(strings.Join(entries, "\n"), "hunter2") { // the team, the incident, the update
		t.Errorf("%d entries: %q", len(entries), entries)
	}
}
