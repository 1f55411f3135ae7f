package conformance_test

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// readFaults returns faults of methods that read.
func readFaults() []fault {
	return append(rangeFaults(), []fault{
		{name: "a page has incidents that are not attached to it", fails: []string{"*/of-the-page"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) { m.Incidents[0].StatusPageId = nil })},
		{name: "a page beyond the end has no total", fails: []string{"fleet/ListServerCommands/beyond"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.ListServerCommandsResponse) {
				if len(m.Commands) == 0 {
					m.Total = 0
				}
			})},
		{name: "pages overlap", fails: []string{"fleet/ListServerCommands/pages", "fleet/ListServerCommands/total"},
			unary: changeResponse(func(c *intercepted, m *fleetv1.ListServerCommandsResponse) {
				if c.request.(*fleetv1.ListServerCommandsRequest).Page == 2 {
					m.Commands = m.Commands[1:]
				}
			})},
	}...)
}

func rangeFaults() []fault {
	return []fault{
		{name: "points are outside the range", fails: []string{"fleet/GetServerMetrics/within-range"}, unproved: []string{"fleet/GetServerMetrics/rollup"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				for _, p := range m.Points {
					p.At = timestamppb.New(p.At.AsTime().AddDate(0, 0, -10))
				}
			})},
		{name: "raw points have the resolution hourly", fails: []string{"fleet/GetServerMetrics/resolution"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				m.Resolution = fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY
			})},
		{name: "rollups are not means", fails: []string{"fleet/GetServerMetrics/rollup"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				for _, p := range m.Points {
					if m.Resolution == fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY {
						p.CpuPercent /= 2
					}
				}
			})},
		{name: "rollups of the memory are not means", fails: []string{"fleet/GetServerMetrics/rollup"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				for _, p := range m.Points {
					if m.Resolution == fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY {
						p.RamUsedMb /= 2
					}
				}
			})},
		{name: "since is exclusive", fails: []string{"monitoring/ListMonitorChecks/since-inclusive"},
			unary: changeResponse(func(c *intercepted, m *monitoringv1.ListMonitorChecksResponse) {
				since := c.request.(*monitoringv1.ListMonitorChecksRequest).Since
				m.Checks = slices.DeleteFunc(m.Checks, func(m *monitoringv1.MonitorCheck) bool { return proto.Equal(m.CheckedAt, since) })
			})},
		{name: "a time in the future is ignored", fails: []string{"monitoring/ListMonitorChecks/since-future"},
			unary: changeRequest(func(_ *intercepted, m *monitoringv1.ListMonitorChecksRequest) {
				if m.Since != nil && m.Since.AsTime().After(clock()) {
					m.Since = timestamppb.New(clock().Add(-24 * time.Hour))
				}
			})},
	}
}
