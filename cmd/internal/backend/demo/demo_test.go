package demo_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/test/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

func TestDemoDataHasAllCases(t *testing.T) {
	s := startSystem(t)
	for name, check := range map[string]func(*testing.T, *system){
		"tokens":                 checkTokens,
		"servers":                checkServers,
		"commands":               checkCommands,
		"monitors":               checkMonitors,
		"incidents":              checkIncidents,
		"status pages":           checkPages,
		"audit log":              checkAudit,
		"other teams":            checkOtherTeams,
		"seeding again":          checkSeedingAgain,
		"the same at each start": checkRepeatable,
	} {
		t.Run(name, func(t *testing.T) { check(t, s) })
	}
}

func checkServers(t *testing.T, s *system) {
	t.Helper()
	team := s.teamOf("full")
	groups, err := s.fleet.ListServerGroups(t.Context(), &fleetv1.ListServerGroupsRequest{TeamId: team})
	testkit.Must(t, err)
	servers, err := s.fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{TeamId: team})
	testkit.Must(t, err)
	perGroup, unseen := map[string]int{}, 0
	for _, server := range servers.GetServers() {
		perGroup[server.GetGroupId()]++
		if server.LastSeenAt == nil {
			unseen++
		}
		s.checkMetrics(team, server)
	}
	if len(servers.GetServers()) < 25 || len(groups.GetServerGroups()) != 4 || len(perGroup) != 5 || perGroup[""] != 1 || unseen != 1 {
		t.Errorf("%d servers in %d groups: %v, %d never seen", len(servers.GetServers()), len(groups.GetServerGroups()), perGroup, unseen)
	}
}

// checkMetrics checks the metrics of a server over 30 complete days and over the last hour.
func (s *system) checkMetrics(team string, server *fleetv1.Server) {
	s.t.Helper()
	points := func(r fleetv1.MetricRange) []*fleetv1.MetricPoint {
		response, err := s.fleet.GetServerMetrics(s.t.Context(),
			&fleetv1.GetServerMetricsRequest{TeamId: team, ServerId: server.GetId(), Range: r})
		testkit.Must(s.t, err)
		return response.GetPoints()
	}
	hours, lastHour := points(fleetv1.MetricRange_METRIC_RANGE_LAST_30D), points(fleetv1.MetricRange_METRIC_RANGE_LAST_1H)
	if server.LastSeenAt == nil {
		if len(hours) != 0 {
			s.t.Errorf("%s has never been seen and has %d points", server.GetName(), len(hours))
		}
		return
	}
	if len(hours) != 30*24 || len(lastHour) < 10 {
		s.t.Errorf("%s: %d hourly points of 30 days, %d of the last hour", server.GetName(), len(hours), len(lastHour))
	}
	for _, p := range append(hours, lastHour...) {
		if p.GetCpuPercent() < 0 || p.GetCpuPercent() > 100 || p.GetRamUsedMb() <= 0 || p.GetRamUsedMb() > p.GetRamTotalMb() ||
			p.GetDiskUsedGb() <= 0 || p.GetDiskUsedGb() > p.GetDiskTotalGb() {
			s.t.Fatalf("%s: point %v", server.GetName(), p)
		}
	}
}

func checkCommands(t *testing.T, s *system) {
	t.Helper()
	team := s.teamOf("full")
	servers, err := s.fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{TeamId: team})
	testkit.Must(t, err)
	longest, sources, statuses := int32(0), map[string]int{}, map[string]int{}
	enabled, disabled, failing := 0, 0, 0
	for _, server := range servers.GetServers() {
		history, err := s.fleet.ListServerCommands(t.Context(), &fleetv1.ListServerCommandsRequest{
			TeamId: team, ServerId: server.GetId(), Page: 1, PageSize: 100,
		})
		testkit.Must(t, err)
		longest = max(longest, history.GetTotal())
		if history.GetTotal() == 150 {
			for _, c := range history.GetCommands() {
				sources[c.GetSource()]++
				statuses[c.GetStatus()]++
				checkCommand(t, c)
			}
		}
		scheduled, err := s.fleet.ListScheduledCommands(t.Context(),
			&fleetv1.ListScheduledCommandsRequest{TeamId: team, ServerId: server.GetId()})
		testkit.Must(t, err)
		for _, c := range scheduled.GetScheduledCommands() {
			switch {
			case !c.GetEnabled():
				disabled++
			case c.GetConsecutiveFailures() > 0:
				failing++
			default:
				enabled++
			}
		}
	}
	if longest != 150 || len(sources) < 3 || len(statuses) < 4 {
		t.Errorf("longest history %d, sources %v, statuses %v", longest, sources, statuses)
	}
	if enabled == 0 || disabled == 0 || failing == 0 {
		t.Errorf("scheduled commands: %d enabled, %d disabled, %d failing", enabled, disabled, failing)
	}
}

// checkCommand compares an entry's times with its status.
func checkCommand(t *testing.T, c *fleetv1.ServerCommand) {
	t.Helper()
	started, finished := c.StartedAt != nil, c.FinishedAt != nil
	if finished != (c.ExitCode != nil) || finished != (c.DurationMs != nil) ||
		started != (c.GetStatus() != "queued") || finished != (started && c.GetStatus() != "running") ||
		(c.GetStatus() == "succeeded") != (finished && c.GetExitCode() == 0) {
		t.Errorf("entry %v", c)
	}
}

func checkMonitors(t *testing.T, s *system) {
	t.Helper()
	team := s.teamOf("full")
	response, err := s.monitoring.ListMonitors(t.Context(), &monitoringv1.ListMonitorsRequest{TeamId: team})
	testkit.Must(t, err)
	kinds, statuses, unchanged := map[string]int{}, map[monitoringv1.MonitorStatus]int{}, 0
	for _, m := range response.GetMonitors() {
		kinds[m.GetType()]++
		statuses[m.GetStatus()]++
		if m.LastStatusChangeAt == nil {
			unchanged++
		}
		s.checkChecks(team, m)
	}
	if len(response.GetMonitors()) != 12 || len(kinds) != 6 || len(statuses) != 3 || unchanged != 1 {
		t.Errorf("%d monitors, kinds %v, statuses %v, %d never changed", len(response.GetMonitors()), kinds, statuses, unchanged)
	}
}

// checkChecks compares a monitor with its checks of 48 hours.
func (s *system) checkChecks(team string, m *monitoringv1.Monitor) {
	s.t.Helper()
	response, err := s.monitoring.ListMonitorChecks(s.t.Context(), &monitoringv1.ListMonitorChecksRequest{
		TeamId: team, MonitorId: m.GetId(), Since: timestamppb.New(now().Add(-48 * time.Hour)),
	})
	testkit.Must(s.t, err)
	checks := response.GetChecks()
	newest, oldest := checks[0], checks[len(checks)-1]
	interval := time.Duration(m.GetIntervalSeconds()) * time.Second
	if oldest.GetCheckedAt().AsTime().After(now().Add(-48*time.Hour+interval)) || newest.GetStatus() != m.GetStatus() ||
		!proto.Equal(newest.GetCheckedAt(), m.GetLastCheckAt()) {
		s.t.Errorf("monitor %v, checks from %v to %v", m, oldest, newest)
	}
	var changed *timestamppb.Timestamp
	for i := range checks[1:] {
		if checks[i].GetStatus() != checks[i+1].GetStatus() {
			changed = checks[i].GetCheckedAt()
			break
		}
	}
	if !proto.Equal(changed, m.GetLastStatusChangeAt()) {
		s.t.Errorf("monitor %s changed at %v, its checks at %v", m.GetName(), m.GetLastStatusChangeAt(), changed)
	}
}

// incidents returns all incidents of a team.
func (s *system) incidents(team string) (all []*incidentv1.Incident) {
	s.t.Helper()
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, err := s.incident.ListIncidents(s.t.Context(),
			&incidentv1.ListIncidentsRequest{TeamId: team, PageSize: 100, Cursor: cursor})
		testkit.Must(s.t, err)
		all, cursor = append(all, page.GetIncidents()...), page.GetNextCursor()
	}
	return all
}

func checkIncidents(t *testing.T, s *system) {
	t.Helper()
	team := s.teamOf("full")
	all := s.incidents(team)
	statuses, impacts := map[incidentv1.IncidentStatus]int{}, map[incidentv1.IncidentImpact]int{}
	maintenance, attached := 0, 0
	for _, incident := range all {
		statuses[incident.GetStatus()]++
		impacts[incident.GetImpact()]++
		if incident.GetIsMaintenance() {
			maintenance++
		}
		if incident.StatusPageId != nil {
			attached++
		}
		s.checkTimeline(team, incident)
	}
	if len(all) != 160 || len(statuses) != 4 || len(impacts) != 4 || maintenance == 0 || attached == 0 || attached == len(all) {
		t.Errorf("%d incidents, statuses %v, impacts %v, %d maintenance, %d attached", len(all), statuses, impacts, maintenance, attached)
	}
	byStart := func(a, b *incidentv1.Incident) int {
		return b.GetStartedAt().AsTime().Compare(a.GetStartedAt().AsTime())
	}
	if slices.IsSortedFunc(all, byStart) {
		t.Error("the orders by startedAt and by createdAt are equal")
	}
}

// checkTimeline compares an incident with its updates.
func (s *system) checkTimeline(team string, incident *incidentv1.Incident) {
	s.t.Helper()
	response, err := s.incident.GetIncident(s.t.Context(), &incidentv1.GetIncidentRequest{TeamId: team, IncidentId: incident.GetId()})
	testkit.Must(s.t, err)
	updates := response.GetUpdates()
	last := updates[len(updates)-1]
	if last.GetStatus() != incident.GetStatus() || last.GetCreatedAt().AsTime().After(now()) ||
		incident.ResolvedAt != nil && !proto.Equal(incident.GetResolvedAt(), last.GetCreatedAt()) ||
		!proto.Equal(updates[0].GetCreatedAt(), incident.GetCreatedAt()) {
		s.t.Errorf("incident %v, timeline %v", incident, updates)
	}
}

func checkPages(t *testing.T, s *system) {
	t.Helper()
	team := s.teamOf("full")
	response, err := s.incident.ListStatusPages(t.Context(), &incidentv1.ListStatusPagesRequest{TeamId: team})
	testkit.Must(t, err)
	suspended, locked, undescribed, inGroup, outside := 0, 0, 0, 0, 0
	overall, hosts := map[incidentv1.PublicStatus]int{}, map[string]bool{}
	for _, page := range response.GetStatusPages() {
		hosts[page.GetUniqueHostname()] = true
		overall[page.GetOverallStatus()]++
		if page.GetSuspended() {
			suspended++
		}
		if page.GetVisibility() == "password" {
			locked++
		}
		if page.Description == nil {
			undescribed++
		}
		single, err := s.incident.GetStatusPage(t.Context(), &incidentv1.GetStatusPageRequest{TeamId: team, StatusPageId: page.GetId()})
		testkit.Must(t, err)
		for _, component := range single.GetComponents() {
			if component.GroupName != nil {
				inGroup++
			} else {
				outside++
			}
		}
	}
	if len(response.GetStatusPages()) != 4 || len(hosts) != 4 || suspended != 1 || locked != 1 || undescribed != 1 {
		t.Errorf("%d suspended, %d with a password, %d without description in %v", suspended, locked, undescribed, response)
	}
	if inGroup == 0 || outside == 0 || len(overall) != 4 {
		t.Errorf("%d components in groups, %d outside; overall %v", inGroup, outside, overall)
	}
}

func checkAudit(t *testing.T, s *system) {
	t.Helper()
	team := s.teamOf("full")
	actions, total := map[string]int{}, 0
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, err := s.audit.ListAuditEntries(t.Context(),
			&auditv1.ListAuditEntriesRequest{TeamId: team, PageSize: 100, Cursor: cursor})
		testkit.Must(t, err)
		for _, e := range page.GetEntries() {
			actions[e.GetActionType()]++
			total++
			if !strings.HasPrefix(e.GetActionType(), e.GetResourceType()+".") || e.GetCreatedAt().AsTime().After(now()) {
				t.Errorf("entry %v", e)
			}
		}
		cursor = page.GetNextCursor()
	}
	if total != 300 || len(actions) < 10 {
		t.Errorf("%d entries, actions %v", total, actions)
	}
}

func checkOtherTeams(t *testing.T, s *system) {
	t.Helper()
	first := s.teamOf("full")
	for _, name := range []string{"other_team", "no_plan"} {
		team := s.teamOf(name)
		servers, err := s.fleet.ListServers(t.Context(), &fleetv1.ListServersRequest{TeamId: team})
		testkit.Must(t, err)
		monitors, err := s.monitoring.ListMonitors(t.Context(), &monitoringv1.ListMonitorsRequest{TeamId: team})
		testkit.Must(t, err)
		pages, err := s.incident.ListStatusPages(t.Context(), &incidentv1.ListStatusPagesRequest{TeamId: team})
		testkit.Must(t, err)
		incidents := len(s.incidents(team))
		for _, n := range []int{len(servers.GetServers()), len(monitors.GetMonitors()), len(pages.GetStatusPages()), incidents} {
			if n == 0 {
				t.Errorf("%s: %d servers, %d monitors, %d pages, %d incidents", name,
					len(servers.GetServers()), len(monitors.GetMonitors()), len(pages.GetStatusPages()), incidents)
			}
		}
		if incidents >= len(s.incidents(first)) {
			t.Errorf("%s has %d incidents", name, incidents)
		}
	}
}

// The second call finds a team.
func checkSeedingAgain(t *testing.T, s *system) {
	t.Helper()
	before, err := s.backend.Tokens(t.Context())
	testkit.Must(t, err)
	testkit.Must(t, demo.Seed(t.Context(), s.backend.Store(), format(), now().Add(time.Hour)))
	after, err := s.backend.Tokens(t.Context())
	testkit.Must(t, err)
	if len(before) != len(after) || !before[0].CreatedAt.Equal(after[0].CreatedAt) {
		t.Error("the second call changed the data")
	}
}

// Two stores with the same clock have the same data.
func checkRepeatable(t *testing.T, s *system) {
	t.Helper()
	other := startSystem(t)
	team := s.teamOf("full")
	if !slices.EqualFunc(s.incidents(team), other.incidents(team), func(a, b *incidentv1.Incident) bool { return proto.Equal(a, b) }) {
		t.Error("the incidents differ")
	}
	ask := &monitoringv1.ListMonitorsRequest{TeamId: team}
	first, err := s.monitoring.ListMonitors(t.Context(), ask)
	testkit.Must(t, err)
	second, err := other.monitoring.ListMonitors(t.Context(), ask)
	testkit.Must(t, err)
	if !proto.Equal(first, second) {
		t.Error("the monitors differ")
	}
}

func BenchmarkSeed(b *testing.B) {
	for b.Loop() {
		backend, err := service.Open(b.Context(), service.Options{DataDir: b.TempDir(), Clock: now})
		testkit.Must(b, err)
		testkit.Must(b, demo.Seed(b.Context(), backend.Store(), format(), now()))
		testkit.Must(b, backend.Close())
	}
}
