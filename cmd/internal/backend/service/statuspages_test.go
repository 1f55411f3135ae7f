package service_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/test/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// addPage adds a page without components to a team.
func (s *system) addPage(t team, name string) string {
	s.t.Helper()
	id := uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertStatusPage(ctx, query.InsertStatusPageParams{
			ID: id, TeamID: t.id, Name: name, UniqueHostname: id, Visibility: "password", Suspended: true,
		})
	})
	return id
}

// outbox returns the event of each of the team's notifications, oldest first, and whether it is suppressed.
func (s *system) outbox(t team) (events []string) {
	s.t.Helper()
	testkit.Must(s.t, s.backend.Store().Read(s.t.Context(), func(q *query.Queries) error {
		rows, err := q.ListNotifications(s.t.Context(), t.id)
		for _, row := range rows {
			events = append(events, fmt.Sprint(row.Event, " ", row.Suppressed))
		}
		return err
	}))
	return events
}

func (s *system) page(t team, id string) *incidentv1.GetStatusPageResponse {
	s.t.Helper()
	response, err := s.incident.GetStatusPage(s.t.Context(), &incidentv1.GetStatusPageRequest{TeamId: t.id, StatusPageId: id})
	testkit.Must(s.t, err)
	return response
}

func TestComponentHasTheStatusOfItsMonitor(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	page, linked := s.addPage(own, "linked"), uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertComponent(ctx, query.InsertComponentParams{
			ID: linked, TeamID: own.id, StatusPageID: page, MonitorID: &own.monitor, Status: "maintenance",
		})
	})
	for monitor, want := range map[string]incidentv1.PublicStatus{
		"up":       incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL,
		"degraded": incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED,
		"down":     incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE,
	} {
		_, err := s.file().Exec("UPDATE monitors SET status = ?", monitor)
		testkit.Must(t, err)
		got := s.page(own, page)
		if status := got.GetComponents()[0].GetStatus(); status != want || got.GetStatusPage().GetOverallStatus() != want {
			t.Errorf("monitor %s: component %v, page %v", monitor, status, got.GetStatusPage().GetOverallStatus())
		}
	}
}

func TestPageHasTheStatusOfItsWorstComponent(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	for i, c := range []struct {
		components []string
		want       incidentv1.PublicStatus
	}{
		{nil, incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL},
		{[]string{"operational", "operational"}, incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL},
		{[]string{"operational", "maintenance"}, incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE},
		{[]string{"degraded", "maintenance"}, incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED},
		{[]string{"outage", "degraded", "operational"}, incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE},
	} {
		page := s.addPage(own, fmt.Sprint("page ", i))
		s.insert(func(ctx context.Context, q *query.Queries) error {
			for j, status := range c.components {
				err := q.InsertComponent(ctx, query.InsertComponentParams{
					ID: uuid.NewString(), TeamID: own.id, StatusPageID: page, Position: int64(-j), Status: status,
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		got := s.page(own, page)
		if got.GetStatusPage().GetOverallStatus() != c.want {
			t.Errorf("components %v: %v, want %v", c.components, got.GetStatusPage().GetOverallStatus(), c.want)
		}
		byPosition := func(a, b *incidentv1.StatusPageComponent) int { return int(a.GetPosition() - b.GetPosition()) }
		if !slices.IsSortedFunc(got.GetComponents(), byPosition) {
			t.Errorf("components %v are not ordered", got.GetComponents())
		}
	}
}

func TestPageIsUnderMaintenanceDuringAMaintenance(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	id := uuid.NewString()
	s.insert(func(ctx context.Context, q *query.Queries) error {
		return q.InsertIncident(ctx, query.InsertIncidentParams{
			ID: id, TeamID: own.id, StatusPageID: &own.page, Title: "Upgrade", Status: "identified", Impact: "none",
			IsMaintenance: true, StartedAt: start().Add(time.Hour).UnixNano(), CreatedAt: start().UnixNano(),
		})
	})
	overall := func() incidentv1.PublicStatus { return s.page(own, own.page).GetStatusPage().GetOverallStatus() }
	if got := overall(); got != incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL {
		t.Errorf("before it starts: %v", got)
	}
	s.clock.Move(time.Hour)
	if got := overall(); got != incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE {
		t.Errorf("during it: %v", got)
	}
	u := newUpdate(own, id)
	u.Status = resolved
	_, err := s.incident.AddIncidentUpdate(t.Context(), u)
	testkit.Must(t, err)
	if got := overall(); got != incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL {
		t.Errorf("afterwards: %v", got)
	}
}

func TestPageReturnsItsNewestHundredIncidents(t *testing.T) {
	s := startSystem(t)
	own := s.team("harbour")
	page := s.addPage(own, "suspended and behind a password")
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

func TestPagesAreOrderedByName(t *testing.T) {
	s := startSystem(t)
	own := s.team("m")
	s.addPage(own, "z")
	s.addPage(own, "a")
	response, err := s.incident.ListStatusPages(t.Context(), &incidentv1.ListStatusPagesRequest{TeamId: own.id})
	testkit.Must(t, err)
	var names []string
	for _, page := range response.GetStatusPages() {
		names = append(names, page.GetName())
	}
	if !slices.Equal(names, []string{"a", "m", "z"}) {
		t.Errorf("names %v", names)
	}
}

// An open incident makes its page at least as bad as its impact; a worse component stays decisive.
func TestPageFollowsTheImpactOfItsOpenIncidents(t *testing.T) {
	const (
		operational = incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL
		degraded    = incidentv1.PublicStatus_PUBLIC_STATUS_DEGRADED
		outage      = incidentv1.PublicStatus_PUBLIC_STATUS_OUTAGE
	)
	s := startSystem(t)
	own := s.team("harbour")
	for _, c := range []struct {
		impact    incidentv1.IncidentImpact
		component string
		want      incidentv1.PublicStatus
	}{
		{incidentv1.IncidentImpact_INCIDENT_IMPACT_NONE, "operational", operational},
		{incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR, "operational", degraded},
		{incidentv1.IncidentImpact_INCIDENT_IMPACT_MAJOR, "operational", degraded},
		{incidentv1.IncidentImpact_INCIDENT_IMPACT_CRITICAL, "operational", outage},
		{incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR, "maintenance", degraded},
		{incidentv1.IncidentImpact_INCIDENT_IMPACT_MINOR, "outage", outage},
	} {
		_, err := s.file().Exec("UPDATE components SET status = ?", c.component)
		testkit.Must(t, err)
		overall := func() incidentv1.PublicStatus { return s.page(own, own.page).GetStatusPage().GetOverallStatus() }
		before := overall()
		r := newIncident(own, "On the page")
		r.StatusPageId, r.Impact = &own.page, c.impact
		id := s.create(r).GetId()
		if got := overall(); got != c.want {
			t.Errorf("%v and a component in %s: %v, want %v", c.impact, c.component, got, c.want)
		}
		s.create(newIncident(own, "On no page"))
		u := newUpdate(own, id)
		u.Status = resolved
		_, err = s.incident.AddIncidentUpdate(t.Context(), u)
		testkit.Must(t, err)
		if got := overall(); got != before {
			t.Errorf("after it: %v, %v before", got, before)
		}
	}
}
