package service

import (
	"context"
	"fmt"
	"strings"

	"opsgate/cmd/internal/backend/store/query"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// uptimeWindow is the time that a monitor's uptime is computed over.
const uptimeWindow = 30 * day

type monitoringService struct {
	monitoringv1.UnimplementedMonitoringServiceServer
	*Backend
}

func (s *monitoringService) ListMonitors(
	ctx context.Context, r *monitoringv1.ListMonitorsRequest,
) (*monitoringv1.ListMonitorsResponse, error) {
	now := s.options.Clock()
	response := &monitoringv1.ListMonitorsResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		rows, err := q.ListMonitors(ctx, r.GetTeamId())
		if err != nil {
			return fmt.Errorf("list the monitors: %w", err)
		}
		counts, err := q.CountMonitorChecks(ctx, query.CountMonitorChecksParams{
			TeamID: r.GetTeamId(), Since: now.Add(-uptimeWindow).UnixNano(), Until: now.UnixNano(),
		})
		if err != nil {
			return fmt.Errorf("count the checks: %w", err)
		}
		uptime := make(map[string]float64, len(counts))
		for _, c := range counts {
			uptime[c.MonitorID] = 100 * float64(c.NotDown) / float64(c.Checks)
		}
		response.Monitors = convert(rows, func(row query.Monitor) *monitoringv1.Monitor {
			monitor := monitorMessage(row)
			if percent, checked := uptime[row.ID]; checked {
				monitor.UptimePercent = &percent
			}
			return monitor
		})
		return nil
	})
}

func (s *monitoringService) ListMonitorChecks(
	ctx context.Context, r *monitoringv1.ListMonitorChecksRequest,
) (*monitoringv1.ListMonitorChecksResponse, error) {
	if r.GetSince() == nil || !r.GetSince().IsValid() {
		return nil, invalidField("since", "must be a time")
	}
	id := strings.ToLower(r.GetMonitorId())
	response := &monitoringv1.ListMonitorChecksResponse{}
	return response, s.store.ReadFor(ctx, r.GetTeamId(), func(q *query.Queries) error {
		exists, err := q.MonitorExists(ctx, query.MonitorExistsParams{TeamID: r.GetTeamId(), ID: id})
		if err != nil {
			return fmt.Errorf("look for the monitor: %w", err)
		}
		if !exists {
			return noSuch("monitor")
		}
		return list(&response.Checks, "checks", checkMessage)(q.ListMonitorChecks(ctx, query.ListMonitorChecksParams{
			TeamID: r.GetTeamId(), MonitorID: id, Since: storedTime(r.GetSince().AsTime()),
		}))
	})
}

func monitorMessage(row query.Monitor) *monitoringv1.Monitor {
	return &monitoringv1.Monitor{
		Id:                 row.ID,
		Name:               row.Name,
		Type:               row.Type,
		Target:             row.Target,
		Status:             monitorStatus(row.Status),
		Enabled:            row.Enabled,
		IntervalSeconds:    int32(row.IntervalSeconds),
		LastCheckAt:        optionalTimestamp(row.LastCheckAt),
		LastStatusChangeAt: optionalTimestamp(row.LastStatusChangeAt),
	}
}

func checkMessage(row query.ListMonitorChecksRow) *monitoringv1.MonitorCheck {
	return &monitoringv1.MonitorCheck{
		Status:    monitorStatus(row.Status),
		LatencyMs: int32(row.LatencyMs),
		CheckedAt: timestamp(row.CheckedAt),
	}
}

// monitorStatus converts a stored status.
func monitorStatus(word string) monitoringv1.MonitorStatus {
	return monitoringv1.MonitorStatus(monitoringv1.MonitorStatus_value["MONITOR_STATUS_"+strings.ToUpper(word)])
}
