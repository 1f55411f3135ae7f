package refbackend_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// A byID is a method that names one thing of a team.
type byID struct {
	name string
	call func(ctx context.Context, team, id string) error
	of   func(team) string
}

func methodsByID(s *system) []byID {
	server := func(t team) string { return t.server }
	page := func(t team) string { return t.page }
	incident := func(t team) string { return s.create(newIncident(t, "Theirs")).GetId() }
	return []byID{
		{"GetServer", func(ctx context.Context, team, id string) error {
			_, err := s.fleet.GetServer(ctx, &fleetv1.GetServerRequest{TeamId: team, ServerId: id})
			return err
		}, server},
		{"GetServerMetrics", func(ctx context.Context, team, id string) error {
			_, err := s.fleet.GetServerMetrics(ctx, &fleetv1.GetServerMetricsRequest{
				TeamId: team, ServerId: id, Range: fleetv1.MetricRange_METRIC_RANGE_LAST_24H,
			})
			return err
		}, server},
		{"ListScheduledCommands", func(ctx context.Context, team, id string) error {
			_, err := s.fleet.ListScheduledCommands(ctx, &fleetv1.ListScheduledCommandsRequest{TeamId: team, ServerId: id})
			return err
		}, server},
		{"ListServerCommands", func(ctx context.Context, team, id string) error {
			_, err := s.fleet.ListServerCommands(ctx, &fleetv1.ListServerCommandsRequest{
				TeamId: team, ServerId: id, Page: 1, PageSize: 20,
			})
			return err
		}, server},
		{"ListMonitorChecks", func(ctx context.Context, team, id string) error {
			_, err := s.monitoring.ListMonitorChecks(ctx, &monitoringv1.ListMonitorChecksRequest{
				TeamId: team, MonitorId: id, Since: timestamppb.New(start()),
			})
			return err
		}, func(t team) string { return t.monitor }},
		{"GetIncident", func(ctx context.Context, team, id string) error {
			_, err := s.incident.GetIncident(ctx, &incidentv1.GetIncidentRequest{TeamId: team, IncidentId: id})
			return err
		}, incident},
		{"AddIncidentUpdate", func(ctx context.Context, teamID, id string) error {
			_, err := s.incident.AddIncidentUpdate(ctx, newUpdate(team{id: teamID}, id))
			return err
		}, incident},
		{"GetStatusPage", func(ctx context.Context, team, id string) error {
			_, err := s.incident.GetStatusPage(ctx, &incidentv1.GetStatusPageRequest{TeamId: team, StatusPageId: id})
			return err
		}, page},
		{"ListStatusPageIncidents", func(ctx context.Context, team, id string) error {
			_, err := s.incident.ListStatusPageIncidents(ctx,
				&incidentv1.ListStatusPageIncidentsRequest{TeamId: team, StatusPageId: id})
			return err
		}, page},
	}
}

func TestWhatIsAnotherTeamsDoesNotExist(t *testing.T) {
	s := startSystem(t)
	ours, theirs := s.team("harbour"), s.team("lighthouse")
	for _, method := range methodsByID(s) {
		t.Run(method.name, func(t *testing.T) {
			id := method.of(theirs)
			must(t, method.call(t.Context(), theirs.id, id))
			foreign := method.call(t.Context(), ours.id, id)
			mustBe(t, foreign, codes.NotFound)
			for _, nowhere := range []string{uuid.NewString(), "", "42", "{" + id + "}", "urn:uuid:" + id, id + "x"} {
				err := method.call(t.Context(), ours.id, nowhere)
				mustBe(t, err, codes.NotFound)
				if got, want := status.Convert(err).Message(), status.Convert(foreign).Message(); got != want {
					t.Errorf("id %q: told %q, but of another team's %q", nowhere, got, want)
				}
			}
		})
	}
}

func TestListsHoldTheTeamsOwn(t *testing.T) {
	s := startSystem(t)
	ours, theirs := s.team("harbour"), s.team("lighthouse")
	s.create(newIncident(theirs, "Theirs"))
	mine := s.create(newIncident(ours, "Ours"))
	ctx := t.Context()

	servers, err := s.fleet.ListServers(ctx, &fleetv1.ListServersRequest{TeamId: ours.id})
	must(t, err)
	if list := servers.GetServers(); len(list) != 1 || list[0].GetId() != ours.server {
		t.Errorf("servers: %v", list)
	}
	groups, err := s.fleet.ListServerGroups(ctx, &fleetv1.ListServerGroupsRequest{TeamId: ours.id})
	must(t, err)
	if len(groups.GetServerGroups()) != 0 {
		t.Errorf("groups: %v", groups)
	}
	monitors, err := s.monitoring.ListMonitors(ctx, &monitoringv1.ListMonitorsRequest{TeamId: ours.id})
	must(t, err)
	if list := monitors.GetMonitors(); len(list) != 1 || list[0].GetId() != ours.monitor {
		t.Errorf("monitors: %v", list)
	}
	pages, err := s.incident.ListStatusPages(ctx, &incidentv1.ListStatusPagesRequest{TeamId: ours.id})
	must(t, err)
	if list := pages.GetStatusPages(); len(list) != 1 || list[0].GetId() != ours.page {
		t.Errorf("pages: %v", list)
	}
	incidents, err := s.incident.ListIncidents(ctx, &incidentv1.ListIncidentsRequest{TeamId: ours.id, PageSize: 100})
	must(t, err)
	if list := incidents.GetIncidents(); len(list) != 1 || list[0].GetId() != mine.GetId() {
		t.Errorf("incidents: %v", list)
	}
	entries, err := s.audit.ListAuditEntries(ctx, &auditv1.ListAuditEntriesRequest{
		TeamId: ours.id, PageSize: 100, ActionPrefix: "incident.",
	})
	must(t, err)
	if list := entries.GetEntries(); len(list) != 1 || list[0].GetResourceId() != mine.GetId() {
		t.Errorf("audit entries: %v", list)
	}
}

func TestAnIncidentCannotNameAnotherTeamsThings(t *testing.T) {
	s := startSystem(t)
	ours, theirs := s.team("harbour"), s.team("lighthouse")
	r := newIncident(ours, "Reaching over")
	r.StatusPageId = &theirs.page
	r.ComponentIds = []string{theirs.component}
	_, err := s.incident.CreateIncident(t.Context(), r)
	fields := violated(t, err)
	if len(fields) != 2 || fields["status_page_id"] == "" || fields["component_ids"] == "" {
		t.Errorf("violations: %v", fields)
	}
	if s.count("incidents") != 0 {
		t.Error("an incident was written")
	}
}

func TestATeamMustBeNamed(t *testing.T) {
	s := startSystem(t)
	valid := uuid.NewString()
	for _, id := range []string{"", "harbour", valid[:35], "{" + valid + "}", "A" + valid[1:35] + "F"} {
		_, err := s.fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{TeamId: id})
		if fields := violated(t, err); fields["team_id"] == "" {
			t.Errorf("team %q: %v", id, fields)
		}
		for _, method := range methodsByID(s) {
			if fields := violated(t, method.call(t.Context(), id, valid)); fields["team_id"] == "" {
				t.Errorf("%s, team %q: %v", method.name, id, fields)
			}
		}
	}
	_, err := s.incident.CreateIncident(t.Context(), newIncident(team{id: valid}, "For nobody"))
	if fields := violated(t, err); fields["team_id"] == "" {
		t.Errorf("a team that does not exist: %v", fields)
	}
}
