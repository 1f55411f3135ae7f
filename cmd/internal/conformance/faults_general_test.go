package conformance_test

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// generalFaults are those of services that get a rule wrong which holds everywhere.
func generalFaults() []fault {
	return []fault{
		{
			name: "no health service", fails: []string{"*/Health/serving"},
			unary: func(c *intercepted) (proto.Message, error) {
				if c.method == "Check" {
					return nil, status.Error(codes.Unimplemented, "unknown service grpc.health.v1.Health")
				}
				return c.pass(c.request)
			},
		},
		{name: "deadlines are ignored", fails: []string{"*/deadline"}, noDeadlines: true},
		{name: "answers are malformed", fails: []string{"*/well-formed"}, unary: all(malformations()...)},
		{
			name: "anybody is a team", fails: []string{"*/team-id"},
			unary: failing(codes.InvalidArgument, func(c *intercepted, err error) (proto.Message, error) {
				if slices.Contains(named(err), "team_id") {
					return replyOf(c.path), nil
				}
				return nil, err
			}),
		},
		{name: "a team sees the other's as well", fails: []string{"*/isolation"}, unary: leak},
		{
			name: "ids open every team", fails: []string{"*/foreign-id"},
			unary: failing(codes.NotFound, func(c *intercepted, err error) (proto.Message, error) {
				if team(c) == "" {
					return nil, err
				}
				return c.pass(with(c.request, "team_id", c.state.other(team(c)).ID))
			}),
		},
		{
			name: "what is another team's is told from what is not", fails: []string{"*/foreign-id"},
			unary: failing(codes.NotFound, func(c *intercepted, err error) (proto.Message, error) {
				if team(c) == "" {
					return nil, err
				}
				_, foreign := c.pass(with(c.request, "team_id", c.state.other(team(c)).ID))
				if foreign == nil {
					return nil, status.Error(codes.NotFound, "not yours")
				}
				return nil, err
			}),
		},
		{
			name: "unknown ids are a fault", fails: []string{"*/unknown-id", "*/foreign-id"},
			unary: failing(codes.NotFound, func(c *intercepted, err error) (proto.Message, error) {
				if team(c) == "" {
					return nil, err
				}
				return nil, status.Error(codes.Internal, "sql: no rows in result set")
			}),
		},
		{
			name: "refusals name no field", unary: failing(codes.InvalidArgument, func(_ *intercepted, err error) (proto.Message, error) {
				return nil, status.Error(codes.InvalidArgument, status.Convert(err).Message())
			}),
			fails: slices.Concat(boundsOfRequests(), []string{"*/team-id", "*/idempotent-other-request", "*/idempotent-other-method"}),
		},
		{
			name: "nothing is out of bounds", fails: append(boundsOfRequests(), "*/idempotent-failure"),
			unary: failing(codes.InvalidArgument, func(c *intercepted, err error) (proto.Message, error) {
				if fields := named(err); slices.Contains(fields, "team_id") ||
					slices.Contains(fields, "idempotency_key") && len(text(c.request, "idempotency_key")) == lengthOfKeys {
					return nil, err
				}
				return replyOf(c.path), nil
			}),
		},
		{
			name: "one violation at a time", fails: []string{"*/all-violations"},
			unary: failing(codes.InvalidArgument, func(_ *intercepted, err error) (proto.Message, error) {
				return nil, refuse(named(err)[0])
			}),
		},
	}
}

// lengthOfKeys is that of the idempotency keys of the checks, but for wrong ones.
const lengthOfKeys = 36

// boundsOfRequests are the checks of what must be refused.
func boundsOfRequests() []string {
	names := []string{
		"fleet/GetServerMetrics/range-known", "fleet/ListServerCommands/page", "*/page-size", "*/all-violations",
		"monitoring/ListMonitorChecks/since-required", "incident/AddIncidentUpdate/status", "incident/AddIncidentUpdate/message",
		"identity/ResolveToken/hash-length",
	}
	for _, rule := range []string{
		"title", "status", "impact", "message", "idempotency-key", "unknown-page", "foreign-page", "unknown-component", "foreign-component",
		"many-components", "component-elsewhere",
	} {
		names = append(names, "incident/CreateIncident/"+rule)
	}
	return names
}

// malformations spoil something in every answer that no other check looks at.
func malformations() []func(*intercepted, proto.Message) {
	const unknown = 99
	spoil := func(incidents []*incidentv1.Incident) {
		for _, m := range incidents {
			m.Impact = unknown
		}
	}
	return []func(*intercepted, proto.Message){
		in(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.Plan = unknown }),
		in(func(_ *intercepted, m *fleetv1.ListServersResponse) { m.Servers[0].CreatedAt = nil }),
		in(func(_ *intercepted, m *fleetv1.GetServerResponse) { m.Server.CreatedAt = nil }),
		in(func(_ *intercepted, m *fleetv1.ListServerGroupsResponse) { m.ServerGroups[0].Color = "blue" }),
		in(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) { m.Points[0].RamUsedMb = math.Inf(1) }),
		in(func(_ *intercepted, m *fleetv1.ListScheduledCommandsResponse) {
			m.ScheduledCommands[0].Id = strings.ToUpper(m.ScheduledCommands[0].Id)
		}),
		in(func(_ *intercepted, m *fleetv1.ListServerCommandsResponse) {
			for _, command := range m.Commands {
				command.Id = "{" + command.Id + "}"
			}
		}),
		in(func(_ *intercepted, m *monitoringv1.ListMonitorsResponse) {
			m.Monitors[0].UptimePercent = proto.Float64(100.5)
		}),
		in(func(_ *intercepted, m *monitoringv1.ListMonitorChecksResponse) {
			if len(m.Checks) > 0 {
				m.Checks[0].Status = 0
			}
		}),
		in(func(_ *intercepted, m *incidentv1.ListIncidentsResponse) { spoil(m.Incidents) }),
		in(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) { spoil(m.Incidents) }),
		in(func(c *intercepted, m *incidentv1.GetIncidentResponse) {
			if c.state.known(m.Incident.Id) {
				m.Incident.StartedAt = nil
			}
		}),
		in(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) {
			if strings.Contains(m.Incident.Title, "(any call)") {
				m.Incident.Impact = 0
			}
		}),
		in(func(_ *intercepted, m *incidentv1.AddIncidentUpdateResponse) {
			if m.Update.Status == incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED {
				m.Update.Status = unknown
			}
		}),
		in(func(_ *intercepted, m *incidentv1.ListStatusPagesResponse) { m.StatusPages[0].PrimaryColor = "#12345" }),
		in(func(_ *intercepted, m *incidentv1.GetStatusPageResponse) { m.StatusPage.OverallStatus = 0 }),
		in(func(_ *intercepted, m *auditv1.ListAuditEntriesResponse) {
			for _, entry := range m.Entries {
				entry.Id = strings.ToUpper(entry.Id)
			}
		}),
	}
}

// leak adds what the first team has to what the second is answered.
func leak(c *intercepted) (proto.Message, error) {
	answer, err := c.pass(c.request)
	first, second := c.state.fixtures.Teams[0], c.state.fixtures.Teams[1]
	if err != nil || !reads(c) || team(c) != second.ID {
		return answer, err
	}
	theirs := with(c.request, "team_id", first.ID)
	for thing, id := range second.Things {
		fields := theirs.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if name := fields.Get(i).Name(); text(theirs, name) == id {
				theirs = with(theirs, name, first.Things[thing])
			}
		}
	}
	leaked, err := c.pass(theirs)
	if err != nil { // what the fixtures do not name
		return answer, nil //nolint:nilerr // the first team has no such thing
	}
	next := text(answer, "next_cursor")
	proto.Merge(answer, leaked)
	return with(answer, "next_cursor", next), nil
}
