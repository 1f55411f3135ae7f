package conformance

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

func TestMalformedResponsesAreBreaches(t *testing.T) {
	const id = "0b411d95-7d62-5ca5-9268-573f3d300034"
	now := timestamppb.Now()
	server := func(change func(*fleetv1.Server)) proto.Message {
		m := &fleetv1.Server{Id: id, CreatedAt: now}
		change(m)
		return &fleetv1.GetServerResponse{Server: m}
	}
	check := func(latency *monitoringv1.MonitorCheck) proto.Message {
		return &monitoringv1.ListMonitorChecksResponse{Checks: []*monitoringv1.MonitorCheck{latency}}
	}
	monitor := func(percent float64) proto.Message {
		return &monitoringv1.ListMonitorsResponse{Monitors: []*monitoringv1.Monitor{{
			Id: id, Status: monitoringv1.MonitorStatus_MONITOR_STATUS_UP, UptimePercent: &percent,
		}}}
	}
	point := func(memory float64) proto.Message {
		return &fleetv1.GetServerMetricsResponse{
			Resolution: fleetv1.MetricResolution_METRIC_RESOLUTION_RAW, Points: []*fleetv1.MetricPoint{{At: now, RamUsedMb: memory}},
		}
	}
	const unknown = 99
	for _, test := range []struct {
		name     string
		response proto.Message
		breach   string // "" if the response is well-formed
	}{
		{"a complete server", server(func(*fleetv1.Server) {}), ""},
		{"no server", &fleetv1.GetServerResponse{}, "GetServerResponse.server"},
		{"no time of creation", server(func(m *fleetv1.Server) { m.CreatedAt = nil }), "Server.created_at"},
		{"an invalid time", server(func(m *fleetv1.Server) { m.CreatedAt = &timestamppb.Timestamp{Nanos: -1} }), "google.protobuf.Timestamp"},
		{"an id in upper case", server(func(m *fleetv1.Server) { m.Id = strings.ToUpper(id) }), "Server.id"},
		{"an id in braces", server(func(m *fleetv1.Server) { m.Id = "{" + id + "}" }), "Server.id"},
		{"an empty optional id", server(func(m *fleetv1.Server) { m.GroupId = new(string) }), "Server.group_id"},
		{"a colour by name", &fleetv1.ListServerGroupsResponse{ServerGroups: []*fleetv1.ServerGroup{{Id: id, Color: "blue"}}}, "color"},
		{"a short colour", &incidentv1.ListStatusPagesResponse{StatusPages: []*incidentv1.StatusPage{{
			Id: id, PrimaryColor: "#12345", CreatedAt: now, OverallStatus: 1,
		}}}, "primary_color"},
		{"a percentage of 100", monitor(100), ""},
		{"a percentage above 100", monitor(100.5), "uptime_percent"},
		{"a finite number", point(1), ""},
		{"an infinite number", point(math.Inf(1)), "ram_used_mb"},
		{"not a number", point(math.NaN()), "ram_used_mb"},
		{"no time of a check", check(&monitoringv1.MonitorCheck{Status: 1}), "MonitorCheck.checked_at"},
		{"an unspecified status", check(&monitoringv1.MonitorCheck{CheckedAt: now}), "MonitorCheck.status"},
		{"an unknown status", check(&monitoringv1.MonitorCheck{CheckedAt: now, Status: unknown}), "MonitorCheck.status"},
		{"an unknown plan", &identityv1.ResolveTokenResponse{TokenId: id, TeamId: id, Plan: unknown}, "plan"},
		{"an unspecified plan", &identityv1.ResolveTokenResponse{TokenId: id, TeamId: id}, ""},
		{"no start of an incident",
			&incidentv1.ListIncidentsResponse{Incidents: []*incidentv1.Incident{{Id: id, Status: 1, Impact: 1, CreatedAt: now}}},
			"Incident.started_at"},
		{"a resource without id", &auditv1.ListAuditEntriesResponse{Entries: []*auditv1.AuditEntry{{
			Id: id, ActorId: id, CreatedAt: now,
		}}}, "resource_id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := wellFormed(test.response)
			if (err == nil) != (test.breach == "") || err != nil && !strings.Contains(err.Error(), test.breach) {
				t.Errorf("got %v, want a breach of %q", err, test.breach)
			}
		})
	}
}
