package conformance

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

func monitoringChecks() []Check {
	return []Check{
		{
			Name: "monitoring/ListMonitors/complete", Needs: []Kind{Monitor}, run: listsAllMonitors,
			Sentence: "ListMonitors returns all monitors of the team.",
		},
		{
			Name: "monitoring/ListMonitors/order", Sentence: "Monitors are ordered by name and then by id.",
			run: func(ctx context.Context, s *subject) error {
				response, err := s.monitoring.ListMonitors(ctx, &monitoringv1.ListMonitorsRequest{TeamId: s.teams[0].ID})
				if err != nil {
					return err
				}
				return orderedByName(rows(response.GetMonitors(), func(m *monitoringv1.Monitor) row {
					return row{id: m.GetId(), name: m.GetName()}
				}))
			},
		},
		{
			Name: "monitoring/ListMonitorChecks/order", Needs: []Kind{Monitor}, Sentence: "Checks are ordered newest first.",
			run: func(ctx context.Context, s *subject) error {
				checked, err := s.checkTimes(ctx, s.now().Add(-24*time.Hour))
				if err != nil {
					return err
				}
				return newestFirst(checked)
			},
		},
		{
			Name: "monitoring/ListMonitorChecks/since-required", Needs: []Kind{Monitor},
			Sentence: "INVALID_ARGUMENT naming `since` if it is absent.",
			run: refuses("monitoring/ListMonitorChecks", "since", func(_ *subject, own Team) []invalidRequest {
				return []invalidRequest{{"no time", &monitoringv1.ListMonitorChecksRequest{TeamId: own.ID, MonitorId: own.Resources[Monitor]}}}
			}),
		},
		{
			Name: "monitoring/ListMonitorChecks/since-inclusive", Needs: []Kind{Monitor}, run: sinceIsInclusive,
			Sentence: "`since` is the earliest time of a check, inclusive.",
		},
		{
			Name: "monitoring/ListMonitorChecks/since-future", Needs: []Kind{Monitor}, run: futureIsEmpty,
			Sentence: "For a time in the future the list is empty.",
		},
	}
}

func listsAllMonitors(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, _ Team) error {
		response, err := s.monitoring.ListMonitors(ctx, &monitoringv1.ListMonitorsRequest{TeamId: own.ID})
		if err != nil {
			return err
		}
		return contains(own, Monitor, messageIDs(response))
	})
}

// checkTimes returns the times of the checks of the first team's monitor.
func (s *subject) checkTimes(ctx context.Context, since time.Time) ([]row, error) {
	own := s.teams[0]
	response, err := s.monitoring.ListMonitorChecks(ctx, &monitoringv1.ListMonitorChecksRequest{
		TeamId: own.ID, MonitorId: own.Resources[Monitor], Since: timestamppb.New(since),
	})
	return rows(response.GetChecks(), func(m *monitoringv1.MonitorCheck) row { return row{at: timeOf(m.GetCheckedAt())} }), err
}

// sinceIsInclusive uses the exact time of a check in the middle of the list.
func sinceIsInclusive(ctx context.Context, s *subject) error {
	all, err := s.checkTimes(ctx, s.now().Add(-24*time.Hour))
	if err != nil {
		return err
	}
	if len(all) < 3 {
		return skip("the monitor was checked fewer than three times in the last day")
	}
	from := all[len(all)/2].at
	some, err := s.checkTimes(ctx, from)
	if err != nil {
		return err
	}
	if len(some) == 0 || !some[len(some)-1].at.Equal(from) {
		return expected(fmt.Sprintf("%v as the oldest check, for since with its time", all[len(all)/2]), "%v", some[max(0, len(some)-1):])
	}
	return nil
}

func futureIsEmpty(ctx context.Context, s *subject) error {
	checks, err := s.checkTimes(ctx, s.now().Add(24*time.Hour))
	if err != nil {
		return err
	}
	if len(checks) > 0 {
		return expected("0 checks since tomorrow", "%d, the newest of %v", len(checks), checks[0])
	}
	return nil
}
