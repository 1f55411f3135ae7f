package service_test

import (
	"context"
	"testing"
	"time"

	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

func (s *system) check(monitor string, at time.Time, status string) {
	s.insert(func(ctx context.Context, q *query.Queries) error {
		_, err := q.InsertNewMonitorCheckAnyTeam(ctx, query.InsertNewMonitorCheckAnyTeamParams{
			MonitorID: monitor, CheckedAt: at.UnixNano(), Status: status, LatencyMs: 12,
		})
		return err
	})
}

func TestUptimeIsThePercentageOfChecksNotDown(t *testing.T) {
	s := startSystem(t)
	own, unchecked := s.team("harbour"), s.team("lighthouse")
	now := s.clock.Now()
	for i, status := range []string{"up", "down", "degraded", "up", "up", "up", "down", "up"} {
		s.check(own.monitor, now.Add(-time.Duration(i)*time.Hour), status)
	}
	s.check(own.monitor, now.Add(-30*24*time.Hour-1), "down") // before the last 30 days
	s.check(own.monitor, now.Add(time.Hour), "down")          // in the future
	s.check(unchecked.monitor, now.Add(-40*24*time.Hour), "up")
	for _, c := range []struct {
		of   team
		want *float64
	}{{own, new(75.0)}, {unchecked, nil}} {
		response, err := s.monitoring.ListMonitors(t.Context(), &monitoringv1.ListMonitorsRequest{TeamId: c.of.id})
		testkit.Must(t, err)
		got := response.GetMonitors()[0].UptimePercent
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("uptime %v, want %v", got, c.want)
		}
	}
}
