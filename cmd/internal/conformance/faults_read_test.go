package conformance_test

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// readFaults are those of methods that read.
func readFaults() []fault {
	return slices.Concat(contentFaults(), rangeFaults(), []fault{
		{name: "the wrong order", fails: []string{"*/order"}, unary: all(disorders()...)},
		{
			name: "a page that was asked for too late has no total", fails: []string{"fleet/ListServerCommands/beyond"},
			unary: tamper(func(_ *intercepted, m *fleetv1.ListServerCommandsResponse) {
				if len(m.Commands) == 0 {
					m.Total = 0
				}
			}),
		},
		{
			name: "pages overlap", fails: []string{"fleet/ListServerCommands/pages"},
			unary: tamper(func(c *intercepted, m *fleetv1.ListServerCommandsResponse) {
				if c.request.(*fleetv1.ListServerCommandsRequest).Page == 2 {
					m.Commands = m.Commands[1:]
				}
			}),
		},
	})
}

func contentFaults() []fault {
	return []fault{
		{
			name: "lists lack something", fails: []string{"*/complete"},
			unary: all(
				in(func(c *intercepted, m *fleetv1.ListServersResponse) {
					m.Servers = slices.DeleteFunc(m.Servers, func(s *fleetv1.Server) bool { return c.state.known(s.Id) })
				}),
				in(func(c *intercepted, m *monitoringv1.ListMonitorsResponse) {
					m.Monitors = slices.DeleteFunc(m.Monitors, func(s *monitoringv1.Monitor) bool { return c.state.known(s.Id) })
				}),
				in(func(c *intercepted, m *incidentv1.ListStatusPagesResponse) {
					m.StatusPages = slices.DeleteFunc(m.StatusPages, func(s *incidentv1.StatusPage) bool { return c.state.known(s.Id) })
				}),
			),
		},
		{
			name: "something else is returned", fails: []string{"*/the-one-asked-for"},
			unary: all(
				in(func(_ *intercepted, m *fleetv1.GetServerResponse) { m.Server.Id = uuid.NewString() }),
				in(func(_ *intercepted, m *incidentv1.GetStatusPageResponse) { m.StatusPage.Id = uuid.NewString() }),
				in(func(c *intercepted, m *incidentv1.GetIncidentResponse) {
					if c.state.known(m.Incident.Id) {
						m.Incident.Id = uuid.NewString()
					}
				}),
			),
		},
		{
			name: "a page shows what is not attached to it", fails: []string{"*/of-the-page"},
			unary: tamper(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) { m.Incidents[0].StatusPageId = nil }),
		},
	}
}

func rangeFaults() []fault {
	return []fault{
		{
			name: "metrics of another time", fails: []string{"fleet/GetServerMetrics/within-range"},
			unary: tamper(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				for _, p := range m.Points {
					p.At = timestamppb.New(p.At.AsTime().AddDate(0, 0, -10))
				}
			}),
		},
		{
			name: "raw metrics are called hourly", fails: []string{"fleet/GetServerMetrics/resolution"},
			unary: tamper(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				m.Resolution = fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY
			}),
		},
		{
			name: "rollups are no means", fails: []string{"fleet/GetServerMetrics/rollup"},
			unary: tamper(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				for _, p := range m.Points {
					if m.Resolution == fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY {
						p.CpuPercent /= 2
					}
				}
			}),
		},
		{
			name: "since is exclusive", fails: []string{"monitoring/ListMonitorChecks/since-inclusive"},
			unary: tamper(func(c *intercepted, m *monitoringv1.ListMonitorChecksResponse) {
				since := c.request.(*monitoringv1.ListMonitorChecksRequest).Since
				m.Checks = slices.DeleteFunc(m.Checks, func(m *monitoringv1.MonitorCheck) bool { return proto.Equal(m.CheckedAt, since) })
			}),
		},
		{
			name: "the future is taken for the past", fails: []string{"monitoring/ListMonitorChecks/since-future"},
			unary: rewrite(func(_ *intercepted, m *monitoringv1.ListMonitorChecksRequest) {
				if m.Since != nil && m.Since.AsTime().After(time.Now()) {
					m.Since = timestamppb.New(time.Now().Add(-24 * time.Hour))
				}
			}),
		},
	}
}

// disorders swap the first two of every list.
func disorders() []func(*intercepted, proto.Message) {
	return []func(*intercepted, proto.Message){
		in(func(_ *intercepted, m *fleetv1.ListServersResponse) { swap(m.Servers) }),
		in(func(_ *intercepted, m *fleetv1.ListServerGroupsResponse) { swap(m.ServerGroups) }),
		in(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) { swap(m.Points) }),
		in(func(_ *intercepted, m *fleetv1.ListScheduledCommandsResponse) { swap(m.ScheduledCommands) }),
		in(func(c *intercepted, m *fleetv1.ListServerCommandsResponse) {
			if c.request.(*fleetv1.ListServerCommandsRequest).Page == 1 {
				swap(m.Commands)
			}
		}),
		in(func(_ *intercepted, m *monitoringv1.ListMonitorsResponse) { slices.Reverse(m.Monitors) }),
		in(func(_ *intercepted, m *monitoringv1.ListMonitorChecksResponse) { swap(m.Checks) }),
		in(func(c *intercepted, m *incidentv1.ListIncidentsResponse) {
			if text(c.request, "cursor") == "" || m.CursorIgnored {
				swap(m.Incidents)
			}
		}),
		in(func(c *intercepted, m *incidentv1.GetIncidentResponse) {
			if c.state.known(m.Incident.Id) {
				swap(m.Updates)
			}
		}),
		in(func(_ *intercepted, m *incidentv1.ListStatusPagesResponse) { swap(m.StatusPages) }),
		in(func(_ *intercepted, m *incidentv1.GetStatusPageResponse) { swap(m.Components) }),
		in(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) { swap(m.Incidents) }),
		in(func(c *intercepted, m *auditv1.ListAuditEntriesResponse) {
			if text(c.request, "cursor") == "" || m.CursorIgnored {
				swap(m.Entries)
			}
		}),
	}
}
