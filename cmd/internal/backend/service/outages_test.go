package service_test

import (
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/store/storetest"
	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// kinds returns the action types of the team's audit log, oldest first.
func (s *system) kinds(t team) (kinds []string) {
	s.t.Helper()
	for _, entry := range s.log(t) {
		kinds = append(kinds, entry.GetActionType())
	}
	return kinds
}

// overall returns the status of a page and of its components.
func (s *system) overall(w probed, page string) (overall incidentv1.PublicStatus, components []incidentv1.PublicStatus) {
	s.t.Helper()
	got := s.page(w.team, page)
	for _, component := range got.GetComponents() {
		components = append(components, component.GetStatus())
	}
	return got.GetStatusPage().GetOverallStatus(), components
}

// post posts an update as a person.
func (s *system) post(w probed, incident string, status incidentv1.IncidentStatus) {
	s.t.Helper()
	u := newUpdate(w.team, incident)
	u.Status, u.NotifySubscribers = status, false
	_, err := s.incident.AddIncidentUpdate(s.t.Context(), u)
	testkit.Must(s.t, err)
}

// wantOverall fails the test if the pages and their components do not have the statuses.
func (s *system) wantOverall(w probed, page, component, second incidentv1.PublicStatus) {
	s.t.Helper()
	overall, components := s.overall(w, w.page)
	secondOverall, secondComponents := s.overall(w, w.secondPage)
	if overall != page || !slices.Equal(components, []incidentv1.PublicStatus{component, component}) ||
		secondOverall != second || !slices.Equal(secondComponents, []incidentv1.PublicStatus{component}) {
		s.t.Errorf("pages %v %v and %v %v, want %v, %v and %v", overall, components, secondOverall, secondComponents, page, second, component)
	}
}

// What its incident, its audit log and its notifications contain; when there are some is compared
// with a model by TestChecksCauseWhatTheirHistoryImplies.
func TestOutageIsAnIncidentFromDownToRecovery(t *testing.T) {
	s, w := startProbed(t)
	s.probes(w, "uddd")
	down := s.clock.Now()
	s.probes(w, "uuuuuu")
	if got := s.incidents(w.team); len(got) != 1 || got[0].ResolvedAt != nil || !got[0].GetStartedAt().AsTime().Equal(down) ||
		got[0].GetImpact() != incidentv1.IncidentImpact_INCIDENT_IMPACT_MAJOR || got[0].GetTitle() != "Booking API is down" ||
		got[0].GetStatusPageId() != w.page {
		t.Fatalf("incidents %v", got)
	}
	s.probes(w, "u")
	incident := s.get(w.team, s.incidents(w.team)[0].GetId())
	updates := incident.GetUpdates()
	if len(updates) != 2 || incident.GetIncident().GetStatus() != resolved ||
		updates[0].GetMessage() != "Our automatic checks of Booking API fail. We are investigating." ||
		updates[1].GetMessage() != "Our automatic checks of Booking API have succeeded for 5 minutes. This incident is resolved." {
		t.Errorf("incident %v", incident)
	}
	// The entries are those of the service: no token, and the loopback address.
	for i, entry := range s.log(w.team) {
		kind, _, _ := strings.Cut(entry.GetActionType(), ".")
		ids := map[string][]string{"monitor": {w.monitor}, "component": w.components, "incident": {incident.GetIncident().GetId()}}[kind]
		if entry.GetActorId() != "00000000-0000-0000-0000-000000000000" || entry.GetIpAddress() != "127.0.0.1" ||
			entry.GetResourceType() != kind || !slices.Contains(ids, entry.GetResourceId()) ||
			i > 0 && !entry.GetCreatedAt().AsTime().After(s.log(w.team)[i-1].GetCreatedAt().AsTime()) {
			t.Errorf("entry %d: %v", i, entry)
		}
	}
	if got := s.outbox(w.team); !slices.Equal(got, []string{"incident.created false", "incident.update_posted false"}) {
		t.Errorf("outbox %v", got)
	}
	affected := storetest.Column[string](t, s.file(), "SELECT component_id FROM incident_components WHERE incident_id = ?", incident.GetIncident().GetId())
	if want := slices.Sorted(slices.Values(w.components[:2])); !slices.Equal(affected, want) {
		t.Errorf("affected components %v, want %v", affected, want)
	}
}

func TestIncidentOfAMonitorOnNoPage(t *testing.T) {
	s, own := startTeam(t)
	s.exec("UPDATE monitors SET enabled = 1, opens_incidents = 1, name = ?", strings.Repeat("ü", 300))
	s.probes(probed{team: own, monitor: own.monitor}, "ddd")
	got := s.incidents(own)
	if len(got) != 1 || got[0].StatusPageId != nil || len([]rune(got[0].GetTitle())) != 255 || !strings.HasSuffix(got[0].GetTitle(), "ü is down") {
		t.Errorf("incidents %v", got)
	}
	if got := s.outbox(own); len(got) != 0 {
		t.Errorf("outbox %v", got)
	}
}

func TestMonitorThatOpensNoIncidents(t *testing.T) {
	s, w := startProbed(t)
	s.exec("UPDATE monitors SET opens_incidents = 0")
	s.probes(w, "ddduuuuuuuu")
	if got := s.incidents(w.team); len(got) != 0 || s.letter(w) != "u" {
		t.Errorf("status %s, incidents %v", s.letter(w), got)
	}
}
