package service_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// addPage adds a page without components to a team.
func (s *system) addPage(t team, name string) string {
	s.t.Helper()
	id := uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertStatusPage(ctx, query.InsertStatusPageParams{
			ID: id, TeamID: t.id, Name: name, UniqueHostname: id, Visibility: "password",
		})
	})
	return id
}

// outbox returns the event of each of the team's notifications, oldest first, and whether it is
// suppressed.
func (s *system) outbox(t team) []string {
	s.t.Helper()
	return storetest.Column[string](s.t, s.file(), `SELECT event || iif(suppressed, ' true', ' false') FROM notifications
		WHERE team_id = ? ORDER BY created_at, id`, t.id)
}

func (s *system) page(t team, id string) *incidentv1.GetStatusPageResponse {
	s.t.Helper()
	response, err := s.incident.GetStatusPage(s.t.Context(), &incidentv1.GetStatusPageRequest{TeamId: t.id, StatusPageId: id})
	testkit.Must(s.t, err)
	return response
}

// Subscribers of a suspended page are not notified, also not later when it is resumed.
func TestSubscribersOfASuspendedPageAreNotNotified(t *testing.T) {
	s, own := startTeam(t)
	page := s.addPage(own, "suspended")
	s.exec("UPDATE status_pages SET suspended = 1 WHERE id = ?", page)
	r := newIncident(own, "While it is suspended")
	r.StatusPageId = &page
	incident := s.create(r).GetId()
	s.exec("UPDATE status_pages SET suspended = 0 WHERE id = ?", page)
	_, err := s.incident.AddIncidentUpdate(t.Context(), newUpdate(own, incident))
	testkit.Must(t, err)
	if got := s.outbox(own); !slices.Equal(got, []string{"incident.created true", "incident.update_posted false"}) {
		t.Errorf("event and whether it is suppressed: %q", got)
	}
}

func TestPageReturnsItsNewestHundredIncidents(t *testing.T) {
	s, own := startTeam(t)
	page := s.addPage(own, "suspended and behind a password")
	s.exec("UPDATE status_pages SET suspended = 1 WHERE id = ?", page)
	s.create(newIncident(own, "Attached to none"))
	var want []string
	for i := range 101 {
		r := newIncident(own, fmt.Sprint("Incident ", i))
		r.StatusPageId = &page
		want = append(want, s.create(r).GetId())
	}
	slices.Reverse(want)
	response, err := s.incident.ListStatusPageIncidents(t.Context(),
		&incidentv1.ListStatusPageIncidentsRequest{TeamId: own.id, StatusPageId: page})
	testkit.Must(t, err)
	var got []string
	for _, incident := range response.GetIncidents() {
		got = append(got, incident.GetId())
	}
	if !slices.Equal(got, want[:100]) {
		t.Errorf("%d incidents, or in another order than newest first", len(got))
	}
}
