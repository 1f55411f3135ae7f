package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
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
	testkit.Must(s.t, s.backend.RecordCheck(s.t.Context(), service.Check{
		MonitorID: w.monitor, At: s.clock.Now(), Status: result, Latency: 12 * time.Millisecond,
	}))
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

func TestInvalidChecksAreErrors(t *testing.T) {
	s, w := startProbed(t)
	disabled := s.team("lighthouse").monitor
	valid := service.Check{MonitorID: w.monitor, At: start(), Status: "up"}
	for name, c := range map[string]struct {
		spoil func(*service.Check)
		want  error
	}{
		"unknown monitor":  {func(c *service.Check) { c.MonitorID = w.page }, service.ErrNotFound},
		"disabled monitor": {func(c *service.Check) { c.MonitorID = disabled }, service.ErrMonitorDisabled},
		"unknown status":   {func(c *service.Check) { c.Status = "unknown" }, nil},
		"negative latency": {func(c *service.Check) { c.Latency = -time.Millisecond }, nil},
		"from the future":  {func(c *service.Check) { c.At = c.At.Add(time.Hour) }, nil},
	} {
		check := valid
		c.spoil(&check)
		if err := s.backend.RecordCheck(t.Context(), check); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if n := s.count("monitor_checks"); n != 0 {
		t.Errorf("%d checks were stored", n)
	}
}
