package conformance_test

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// dataFaults returns faults that only show in certain data: full pages, rows of one millisecond, old rows, long texts.
func dataFaults() []fault {
	return slices.Concat(rowFaults(), metricFaults(), []fault{
		{name: "a replay has the present incident", fails: []string{"incident/CreateIncident/idempotent-replay-later"},
			unary: changeResponse(func(c *intercepted, m *incidentv1.CreateIncidentResponse) {
				if m.Replayed {
					present := &incidentv1.GetIncidentResponse{}
					request := &incidentv1.GetIncidentRequest{TeamId: team(c), IncidentId: m.Incident.Id}
					if c.conn.Invoke(c.ctx, incidentv1.IncidentService_GetIncident_FullMethodName, request, present) == nil {
						m.Incident = present.Incident
					}
				}
			})},
		{name: "messages are cut", fails: []string{"*/longest"},
			unary: func(c *intercepted) (proto.Message, error) {
				const stored, longest = 1000, 10_000
				if message := []rune(text(c.request, "message")); c.method.Writes() && len(message) > stored && len(message) <= longest {
					return c.pass(with(c.request, "message", string(message[:stored])))
				}
				return c.pass(c.request)
			}},
		{name: "only updates that resolve are audited", fails: []string{"incident/AddIncidentUpdate/audited"}, unary: auditResolutions},
		{name: "prefixes apply after paging", fails: []string{"audit/ListAuditEntries/prefix-paged"},
			unary: func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(with(c.request, "action_prefix", ""))
				if m, ok := response.(*auditv1.ListAuditEntriesResponse); ok && err == nil {
					m.Entries = slices.DeleteFunc(m.Entries, func(e *auditv1.AuditEntry) bool {
						return !strings.HasPrefix(e.ActionType, text(c.request, "action_prefix"))
					})
				}
				return response, err
			}},
	})
}

func rowFaults() []fault {
	return []fault{
		{name: "cursors skip the rest of a millisecond", fails: []string{"*/walk-one-millisecond"}, unary: onLists(skipMillisecond)},
		{name: "totals are too high", fails: []string{"fleet/ListServerCommands/total"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.ListServerCommandsResponse) { m.Total++ })},
		{name: "commands are ordered by started_at", fails: []string{"fleet/ListServerCommands/order"}, unary: orderByStart},
		{name: "rows are those of one server",
			fails: []string{"fleet/ListScheduledCommands/of-the-server", "fleet/ListServerCommands/of-the-server"},
			unary: func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				if err != nil || c.method.Resource() != "server" || c.method.Rows() == nil {
					return response, err
				}
				return c.pass(with(c.request, "server_id", c.state.team(team(c)).Resources["server"]))
			}},
		{name: "a page has at most 50 incidents", fails: []string{"*/of-the-page"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) {
				m.Incidents = m.Incidents[:min(len(m.Incidents), 50)]
			})},
	}
}

func metricFaults() []fault {
	return []fault{
		{name: "30 days are seven", fails: []string{"fleet/GetServerMetrics/month"},
			unary: changeRequest(func(_ *intercepted, m *fleetv1.GetServerMetricsRequest) {
				if m.Range == fleetv1.MetricRange_METRIC_RANGE_LAST_30D {
					m.Range = fleetv1.MetricRange_METRIC_RANGE_LAST_7D
				}
			})},
		{name: "since is at most a day ago", unproved: []string{"monitoring/ListMonitorChecks/since-old"},
			unary: changeRequest(func(_ *intercepted, m *monitoringv1.ListMonitorChecksRequest) {
				if day := clock().Add(-24 * time.Hour); m.Since != nil && m.Since.AsTime().Before(day) {
					m.Since = timestamppb.New(day)
				}
			})},
		{name: "uptime is a fraction", fails: []string{"monitoring/ListMonitors/last-check"},
			unary: changeMonitors(func(m *monitoringv1.Monitor) { m.UptimePercent = proto.Float64(m.GetUptimePercent() / 100) })},
		{name: "last_check_at is not that of the last check", fails: []string{"monitoring/ListMonitors/last-check"},
			unary: changeMonitors(func(m *monitoringv1.Monitor) {
				if m.LastCheckAt != nil {
					m.LastCheckAt.Seconds -= m.GetLastCheckAt().GetSeconds() % 3600
				}
			})},
	}
}

// changeMonitors returns a handler that changes each monitor in a response, so that methods agree with each other.
func changeMonitors(change func(*monitoringv1.Monitor)) handler {
	return changeResponse(func(_ *intercepted, response proto.Message) {
		_ = protorange.Range(response.ProtoReflect(), func(p protopath.Values) error {
			if message, ok := p.Index(-1).Value.Interface().(protoreflect.Message); ok {
				if monitor, ok := message.Interface().(*monitoringv1.Monitor); ok {
					change(monitor)
				}
			}
			return nil
		})
	})
}

// skipMillisecond leaves out a row with a time in the millisecond of the row before, on pages of one row.
func skipMillisecond(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	if err != nil || rowsOf(c, response).Len() == 0 {
		return response, err
	}
	rows, owner := rowsOf(c, response), team(c)+c.method.String()
	millisecond := func(row proto.Message) int64 {
		return row.(interface{ GetCreatedAt() *timestamppb.Timestamp }).GetCreatedAt().AsTime().UnixMilli()
	}
	row := rows.Get(rows.Len() - 1).Message().Interface()
	c.state.Store(owner+text(response, "next_cursor"), row)
	before, known := c.state.Load(owner + text(c.request, "cursor"))
	if known && millisecond(before.(proto.Message)) == millisecond(row) && pageSize(c.request) == 1 {
		rows.Truncate(0)
	}
	return response, nil
}

// orderByStart returns a page of the commands in the order of their start.
func orderByStart(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	page, ok := response.(*fleetv1.ListServerCommandsResponse)
	if err != nil || !ok {
		return response, err
	}
	r := c.request.(*fleetv1.ListServerCommandsRequest)
	var all []*fleetv1.ServerCommand
	for n := int32(1); len(all) < int(page.Total); n++ {
		some, err := c.pass(&fleetv1.ListServerCommandsRequest{TeamId: r.TeamId, ServerId: r.ServerId, Page: n, PageSize: contract.MaxPageSize})
		if err != nil {
			return nil, err
		}
		all = append(all, some.(*fleetv1.ListServerCommandsResponse).Commands...)
	}
	slices.SortStableFunc(all, func(a, b *fleetv1.ServerCommand) int {
		return cmp.Or(b.GetStartedAt().AsTime().Compare(a.GetStartedAt().AsTime()), b.GetCreatedAt().AsTime().Compare(a.GetCreatedAt().AsTime()))
	})
	from := min(int(r.Page-1)*int(r.PageSize), len(all))
	page.Commands = all[from:min(from+int(r.PageSize), len(all))]
	return page, nil
}

// auditResolutions leaves out the audit entries of other updates.
func auditResolutions(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	if err != nil {
		return nil, err
	}
	switch m := response.(type) {
	case *incidentv1.AddIncidentUpdateResponse:
		if m.Update.Status != resolved {
			c.state.Store(text(c.request, "incident_id")+m.Update.CreatedAt.String(), true)
		}
	case *auditv1.ListAuditEntriesResponse:
		m.Entries = slices.DeleteFunc(m.Entries, func(e *auditv1.AuditEntry) bool {
			_, hidden := c.state.Load(e.ResourceId + e.CreatedAt.String())
			return hidden
		})
	}
	return response, nil
}
