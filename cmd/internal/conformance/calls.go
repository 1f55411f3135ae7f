package conformance

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// A call is a valid call of a method that acts for a team, for the rules that hold for all of them.
type call struct {
	method string
	// of is the thing that the request names; "" where it names none.
	of     Thing
	writes bool
	// anonymous is set where answers have no ids in them.
	anonymous bool
	request   func(s *subject, team, id string) proto.Message
}

// largePage is the most that a page may hold.
const largePage = 100

// calls has all methods that act for a team.
func calls() []call {
	return append(fleetCalls(), []call{
		{method: "monitoring/ListMonitors", request: func(_ *subject, team, _ string) proto.Message {
			return &monitoringv1.ListMonitorsRequest{TeamId: team}
		}},
		{method: "monitoring/ListMonitorChecks", of: Monitor, anonymous: true, request: func(s *subject, team, id string) proto.Message {
			since := timestamppb.New(s.now().Add(-24 * time.Hour))
			return &monitoringv1.ListMonitorChecksRequest{TeamId: team, MonitorId: id, Since: since}
		}},
		{method: "incident/ListIncidents", request: func(_ *subject, team, _ string) proto.Message {
			return &incidentv1.ListIncidentsRequest{TeamId: team, PageSize: largePage}
		}},
		{method: "incident/GetIncident", of: Incident, request: func(_ *subject, team, id string) proto.Message {
			return &incidentv1.GetIncidentRequest{TeamId: team, IncidentId: id}
		}},
		{method: "incident/CreateIncident", writes: true, request: func(s *subject, team, _ string) proto.Message {
			return s.newIncident(team, "any call")
		}},
		{method: "incident/AddIncidentUpdate", of: Incident, writes: true, request: func(s *subject, team, id string) proto.Message {
			return s.newUpdate(team, id)
		}},
		{method: "incident/ListStatusPages", request: func(_ *subject, team, _ string) proto.Message {
			return &incidentv1.ListStatusPagesRequest{TeamId: team}
		}},
		{method: "incident/GetStatusPage", of: StatusPage, request: func(_ *subject, team, id string) proto.Message {
			return &incidentv1.GetStatusPageRequest{TeamId: team, StatusPageId: id}
		}},
		{method: "incident/ListStatusPageIncidents", of: StatusPage, request: func(_ *subject, team, id string) proto.Message {
			return &incidentv1.ListStatusPageIncidentsRequest{TeamId: team, StatusPageId: id}
		}},
		{method: "audit/ListAuditEntries", request: func(_ *subject, team, _ string) proto.Message {
			return &auditv1.ListAuditEntriesRequest{TeamId: team, PageSize: largePage}
		}},
	}...)
}

func fleetCalls() []call {
	return []call{
		{method: "fleet/ListServers", request: func(_ *subject, team, _ string) proto.Message {
			return &fleetv1.ListServersRequest{TeamId: team}
		}},
		{method: "fleet/GetServer", of: Server, request: func(_ *subject, team, id string) proto.Message {
			return &fleetv1.GetServerRequest{TeamId: team, ServerId: id}
		}},
		{method: "fleet/ListServerGroups", request: func(_ *subject, team, _ string) proto.Message {
			return &fleetv1.ListServerGroupsRequest{TeamId: team}
		}},
		{method: "fleet/GetServerMetrics", of: Server, anonymous: true, request: func(_ *subject, team, id string) proto.Message {
			return &fleetv1.GetServerMetricsRequest{TeamId: team, ServerId: id, Range: fleetv1.MetricRange_METRIC_RANGE_LAST_1H}
		}},
		{method: "fleet/ListScheduledCommands", of: Server, request: func(_ *subject, team, id string) proto.Message {
			return &fleetv1.ListScheduledCommandsRequest{TeamId: team, ServerId: id}
		}},
		{method: "fleet/ListServerCommands", of: Server, request: func(_ *subject, team, id string) proto.Message {
			return &fleetv1.ListServerCommandsRequest{TeamId: team, ServerId: id, Page: 1, PageSize: largePage}
		}},
	}
}

// ownID returns the id of a thing of the team that the call may name. What is written to is made for that.
func (c call) ownID(ctx context.Context, s *subject, team Team) (string, error) {
	if !c.writes || c.of == "" {
		return team.Things[c.of], nil
	}
	created, err := s.create(ctx, s.newIncident(team.ID, "to be updated"))
	return created.GetId(), err
}

// answer makes the call for a team.
func (c call) answer(ctx context.Context, s *subject, team Team) (proto.Message, error) {
	id, err := c.ownID(ctx, s, team)
	if err != nil {
		return nil, err
	}
	return s.invoke(ctx, c.method, c.request(s, team.ID, id))
}

// needs are the things that the fixtures have to name for the call.
func (c call) needs() []Thing {
	if c.of == "" || c.writes {
		return nil
	}
	return []Thing{c.of}
}
