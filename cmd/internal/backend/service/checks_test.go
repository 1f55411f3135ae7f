package service_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	ingestv1 "opsgate/proto/ops/ingest/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// A probed is a team with a monitor that opens incidents and is linked to components.
type probed struct {
	team

	monitor          string
	components       []string // in the order of the pages, then by position
	page, secondPage string
}

// addMonitor adds a monitor with two components on one page and one on another.
func (s *system) addMonitor(t team) probed {
	s.t.Helper()
	w := probed{team: t, monitor: uuid.NewString(), page: s.addPage(t, "a"), secondPage: s.addPage(t, "b")}
	s.insert(func(ctx context.Context, q *query.Queries) error {
		err := q.InsertMonitor(ctx, query.InsertMonitorParams{
			ID: w.monitor, TeamID: t.id, Name: "Booking API", Type: "http", Target: "https://internal.example/secret-path", Status: "up",
			Enabled: true, IntervalSeconds: 60, OpensIncidents: true,
		})
		for i, page := range []string{w.page, w.page, w.secondPage} {
			component := query.InsertComponentParams{
				ID: uuid.NewString(), TeamID: t.id, StatusPageID: page, MonitorID: &w.monitor, Name: fmt.Sprint("component ", i),
				Position: int64(i), Status: "operational",
			}
			w.components = append(w.components, component.ID)
			err = firstError(err, q.InsertComponent(ctx, component))
		}
		return err
	})
	return w
}

// startProbed is startTeam with such a monitor.
func startProbed(t testing.TB) (*system, probed) {
	t.Helper()
	s, own := startTeam(t)
	return s, s.addMonitor(own)
}

// probe records a check of the present time.
func (s *system) probe(w probed, result string) {
	s.t.Helper()
	testkit.Must(s.t, s.record(w.monitor, s.clock.Now(), result))
}

// record reports a check, and returns the error of the report or of the check.
func (s *system) record(monitor string, at time.Time, result string) error {
	return s.send(&ingestv1.MonitorCheck{MonitorId: monitor, CheckedAt: timestamppb.New(at), Status: result, LatencyMs: 12})
}

func (s *system) send(check *ingestv1.MonitorCheck) error {
	response, err := s.backend.Ingest().RecordChecks(s.t.Context(), &ingestv1.RecordChecksRequest{Items: []*ingestv1.MonitorCheck{check}})
	for _, refused := range response.GetErrors() {
		return status.Error(codes.Code(refused.GetCode()), refused.GetMessage())
	}
	return err
}

// probes records one check a minute: u for up, g for degraded, d for down.
func (s *system) probes(w probed, results string) {
	s.t.Helper()
	for _, result := range results {
		s.clock.Move(time.Minute)
		s.probe(w, map[rune]string{'u': "up", 'g': "degraded", 'd': "down"}[result])
	}
}

// state returns the monitor.
func (s *system) state(w probed) *monitoringv1.Monitor {
	s.t.Helper()
	response, err := s.monitoring.ListMonitors(s.t.Context(), &monitoringv1.ListMonitorsRequest{TeamId: w.id})
	testkit.Must(s.t, err)
	for _, monitor := range response.GetMonitors() {
		if monitor.GetId() == w.monitor {
			return monitor
		}
	}
	s.t.Fatal("no monitor")
	return nil
}

// letter returns the first letter of the monitor's status: u, g or d.
func (s *system) letter(w probed) string {
	s.t.Helper()
	return map[monitoringv1.MonitorStatus]string{
		monitoringv1.MonitorStatus_MONITOR_STATUS_UP: "u", monitoringv1.MonitorStatus_MONITOR_STATUS_DEGRADED: "g",
		monitoringv1.MonitorStatus_MONITOR_STATUS_DOWN: "d",
	}[s.state(w).GetStatus()]
}

// incidents returns the team's incidents, oldest first.
func (s *system) incidents(t team) []*incidentv1.Incident {
	s.t.Helper()
	response, err := s.incident.ListIncidents(s.t.Context(), &incidentv1.ListIncidentsRequest{TeamId: t.id, PageSize: 100})
	testkit.Must(s.t, err)
	slices.Reverse(response.GetIncidents())
	return response.GetIncidents()
}

// log returns the team's audit log without its first entry, oldest first.
func (s *system) log(t team) (entries []*auditv1.AuditEntry) {
	s.t.Helper()
	for r := (&auditv1.ListAuditEntriesRequest{TeamId: t.id, PageSize: 100}); ; {
		page, err := s.audit.ListAuditEntries(s.t.Context(), r)
		testkit.Must(s.t, err)
		entries = append(entries, page.GetEntries()...)
		if r.Cursor = page.GetNextCursor(); r.GetCursor() == "" {
			slices.Reverse(entries)
			return entries[1:]
		}
	}
}

func TestInvalidChecksAreRefused(t *testing.T) {
	s, w := startProbed(t)
	disabled := s.team("lighthouse").monitor
	for name, c := range map[string]struct {
		spoil func(*ingestv1.MonitorCheck)
		want  codes.Code
	}{
		"unknown monitor":  {func(c *ingestv1.MonitorCheck) { c.MonitorId = w.page }, codes.NotFound},
		"no UUID":          {func(c *ingestv1.MonitorCheck) { c.MonitorId = "booking-api" }, codes.NotFound},
		"disabled monitor": {func(c *ingestv1.MonitorCheck) { c.MonitorId = disabled }, codes.FailedPrecondition},
		"unknown status":   {func(c *ingestv1.MonitorCheck) { c.Status = "unknown" }, codes.InvalidArgument},
		"negative latency": {func(c *ingestv1.MonitorCheck) { c.LatencyMs = -1 }, codes.InvalidArgument},
		"no time":          {func(c *ingestv1.MonitorCheck) { c.CheckedAt = nil }, codes.InvalidArgument},
		"from the future": {
			func(c *ingestv1.MonitorCheck) { c.CheckedAt = timestamppb.New(start().Add(61 * time.Second)) }, codes.InvalidArgument,
		},
	} {
		check := &ingestv1.MonitorCheck{MonitorId: w.monitor, CheckedAt: timestamppb.New(start()), Status: "up"}
		c.spoil(check)
		if err := s.send(check); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if n := s.count("monitor_checks"); n != 0 {
		t.Errorf("%d checks were stored", n)
	}
}

// An outage of the past opens no incident, even if its checks are the first of the monitor.
func TestOldChecksJoinTheHistory(t *testing.T) {
	s, w := startProbed(t)
	for i := range 5 {
		testkit.Must(t, s.record(w.monitor, s.clock.Now().Add(time.Duration(i)*time.Second-15*time.Minute-5*time.Second), "down"))
	}
	if n := s.count("monitor_checks"); n != 5 || s.state(w).GetLastCheckAt() != nil || s.letter(w) != "u" || len(s.incidents(w.team)) != 0 {
		t.Errorf("%d checks, monitor %v, %d incidents", n, s.state(w), len(s.incidents(w.team)))
	}
	testkit.Must(t, s.record(w.monitor, s.clock.Now().Add(-15*time.Minute), "down"))
	if got := s.letter(w); got != "g" {
		t.Errorf("after a check of 15 minutes ago: status %s", got)
	}
}

// History may arrive after the monitor was disabled.
func TestLateCheckOfADisabledMonitorJoinsTheHistory(t *testing.T) {
	s, w := startProbed(t)
	s.probes(w, "ud")
	s.exec("UPDATE monitors SET enabled = 0")
	before := s.state(w)
	testkit.Must(t, s.record(w.monitor, s.clock.Now().Add(-time.Second), "down"))
	if err := s.record(w.monitor, s.clock.Now().Add(time.Second), "down"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a new check: %v", err)
	}
	if n := s.count("monitor_checks"); n != 3 || !s.state(w).GetLastCheckAt().AsTime().Equal(before.GetLastCheckAt().AsTime()) {
		t.Errorf("%d checks; before %v, now %v", n, before, s.state(w))
	}
}
