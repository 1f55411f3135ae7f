package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/authn"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

const (
	otherID  = "0d0d0d0d-0000-7000-8000-000000000002"
	instant  = "2026-01-02T03:04:05.678Z"
	instant2 = "2026-01-02T04:04:05.678Z"
)

func at(hours int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 2, 3+hours, 4, 5, 678_901_234, time.UTC))
}

func fullServer() *fleetv1.Server {
	return &fleetv1.Server{
		Id: someID, Name: "web-1", Host: "10.0.0.1", Os: "Debian 12", Tags: []string{"web", "eu"}, GroupId: proto.String(otherID),
		LastSeenAt: at(1), CreatedAt: at(0),
	}
}

func fullIncident() *incidentv1.Incident {
	return &incidentv1.Incident{
		Id: someID, Title: "Slow API", Status: incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED,
		Impact: incidentv1.IncidentImpact_INCIDENT_IMPACT_MAJOR, StatusPageId: proto.String(otherID), StartedAt: at(0), ResolvedAt: at(1), CreatedAt: at(0),
	}
}

func fullStatusPage() *incidentv1.StatusPage {
	return &incidentv1.StatusPage{
		Id: someID, Name: "Public", UniqueHostname: "status.example.com", Slug: "public", Visibility: "public", PrimaryColor: "#112233",
		Description: proto.String("All systems"), OverallStatus: incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL, CreatedAt: at(0),
	}
}

func fullMonitor() *monitoringv1.Monitor {
	return &monitoringv1.Monitor{
		Id: someID, Name: "site", Type: "http", Target: "https://example.com", Status: monitoringv1.MonitorStatus_MONITOR_STATUS_UP, Enabled: true,
		IntervalSeconds: 60, UptimePercent: proto.Float64(99.98765), LastCheckAt: at(1), LastStatusChangeAt: at(0),
	}
}

const (
	serverJSON = `{"id":"` + someID + `","name":"web-1","host":"10.0.0.1","os":"Debian 12","tags":["web","eu"],"groupId":"` + otherID +
		`","lastSeenAt":"` + instant2 + `","createdAt":"` + instant + `"}`
	incidentJSON = `"id":"` + someID + `","title":"Slow API","status":"resolved","impact":"major","statusPageId":"` + otherID +
		`","isMaintenance":false,"startedAt":"` + instant + `","resolvedAt":"` + instant2 + `","createdAt":"` + instant + `"`
	statusPageJSON = `"id":"` + someID + `","name":"Public","uniqueHostname":"status.example.com","slug":"public","visibility":"public",` +
		`"primaryColor":"#112233","description":"All systems","suspended":false,"overallStatus":"operational","createdAt":"` + instant + `"`
)

func TestViews(t *testing.T) {
	id := "/" + someID
	cases := []struct {
		name, method, target string
		answer               proto.Message
		want                 string
	}{
		{"servers", "ListServers", "/v1/servers", &fleetv1.ListServersResponse{Servers: []*fleetv1.Server{fullServer()}}, "[" + serverJSON + "]"},
		{"no servers", "ListServers", "/v1/servers", &fleetv1.ListServersResponse{}, "[]"},
		{"server", "GetServer", "/v1/servers" + id, &fleetv1.GetServerResponse{Server: fullServer()}, serverJSON},
		{"bare server", "GetServer", "/v1/servers" + id, &fleetv1.GetServerResponse{Server: &fleetv1.Server{CreatedAt: at(0)}},
			`{"id":"","name":"","host":"","os":"","tags":[],"groupId":null,"lastSeenAt":null,"createdAt":"` + instant + `"}`},
		{"groups", "ListServerGroups", "/v1/server-groups",
			&fleetv1.ListServerGroupsResponse{ServerGroups: []*fleetv1.ServerGroup{{Id: someID, Name: "web", Color: "#00ff00", Position: 3}}},
			`[{"id":"` + someID + `","name":"web","color":"#00ff00","position":3}]`},
		{"metrics", "GetServerMetrics", "/v1/servers" + id + "/metrics?range=7d", &fleetv1.GetServerMetricsResponse{
			Resolution: fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY,
			Points:     []*fleetv1.MetricPoint{{At: at(0), CpuPercent: 12.5, RamUsedMb: 1024, RamTotalMb: 2048, DiskUsedGb: 0.25, DiskTotalGb: 80}},
		}, `{"resolution":"hourly","range":"7d","points":[{"at":"` + instant + `","cpuPercent":12.5,"ramUsedMb":1024,"ramTotalMb":2048,"diskUsedGb":0.25,"diskTotalGb":80}]}`},
		{"scheduled commands", "ListScheduledCommands", "/v1/servers" + id + "/scheduled-commands", &fleetv1.ListScheduledCommandsResponse{
			ScheduledCommands: []*fleetv1.ScheduledCommand{
				{Id: someID, Name: "backup", Command: "pg_dump app", Cron: "0 3 * * *", Enabled: true, LastRunAt: at(0), LastExitCode: proto.Int32(1), ConsecutiveFailures: 2},
				{Id: otherID},
			},
		}, `[{"id":"` + someID + `","name":"backup","command":"pg_dump app","cron":"0 3 * * *","enabled":true,"lastRunAt":"` + instant +
			`","lastExitCode":1,"consecutiveFailures":2},{"id":"` + otherID +
			`","name":"","command":"","cron":"","enabled":false,"lastRunAt":null,"lastExitCode":null,"consecutiveFailures":0}]`},
		{"commands", "ListServerCommands", "/v1/servers" + id + "/commands?page=2&pageSize=1", &fleetv1.ListServerCommandsResponse{
			Total: 7,
			Commands: []*fleetv1.ServerCommand{{
				Id: someID, Command: "uptime", Source: "manual", Status: "succeeded", ExitCode: proto.Int32(0), DurationMs: proto.Int64(12),
				StartedAt: at(0), FinishedAt: at(0), CreatedAt: at(0),
			}, {Id: otherID, CreatedAt: at(0)}},
		}, `{"items":[{"id":"` + someID + `","command":"uptime","source":"manual","status":"succeeded","exitCode":0,"durationMs":12,"startedAt":"` + instant +
			`","finishedAt":"` + instant + `","createdAt":"` + instant + `"},{"id":"` + otherID + `","command":"","source":"","status":"","exitCode":null,"durationMs":null,` +
			`"startedAt":null,"finishedAt":null,"createdAt":"` + instant + `"}],"total":7,"page":2,"pageSize":1}`},
		{"monitors", "ListMonitors", "/v1/monitors", &monitoringv1.ListMonitorsResponse{Monitors: []*monitoringv1.Monitor{
			fullMonitor(), {Id: otherID, Status: monitoringv1.MonitorStatus_MONITOR_STATUS_DOWN},
		}}, `[{"id":"` + someID + `","name":"site","type":"http","target":"https://example.com","status":"up","enabled":true,"intervalSeconds":60,` +
			`"uptimePercent":99.988,"lastCheckAt":"` + instant2 + `","lastStatusChangeAt":"` + instant + `"},{"id":"` + otherID +
			`","name":"","type":"","target":"","status":"down","enabled":false,"intervalSeconds":0,"uptimePercent":null,"lastCheckAt":null,"lastStatusChangeAt":null}]`},
		{"checks", "ListMonitorChecks", "/v1/monitors" + id + "/checks", &monitoringv1.ListMonitorChecksResponse{Checks: []*monitoringv1.MonitorCheck{
			{Status: monitoringv1.MonitorStatus_MONITOR_STATUS_DEGRADED, LatencyMs: 900, CheckedAt: at(0)},
		}}, `[{"status":"degraded","latencyMs":900,"checkedAt":"` + instant + `"}]`},
		{"incidents", "ListIncidents", "/v1/incidents", &incidentv1.ListIncidentsResponse{Incidents: []*incidentv1.Incident{fullIncident()}, NextCursor: "abc"},
			`{"items":[{` + incidentJSON + `}],"nextCursor":"abc"}`},
		{"last page of incidents", "ListIncidents", "/v1/incidents", &incidentv1.ListIncidentsResponse{}, `{"items":[],"nextCursor":null}`},
		{"incident", "GetIncident", "/v1/incidents" + id, &incidentv1.GetIncidentResponse{Incident: fullIncident(), Updates: []*incidentv1.IncidentUpdate{
			{Id: otherID, Status: incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING, Message: "Watching.", CreatedAt: at(0)},
		}}, `{` + incidentJSON + `,"updates":[{"id":"` + otherID + `","status":"monitoring","message":"Watching.","createdAt":"` + instant + `"}]}`},
		{"status pages", "ListStatusPages", "/v1/status-pages", &incidentv1.ListStatusPagesResponse{StatusPages: []*incidentv1.StatusPage{fullStatusPage()}},
			`[{` + statusPageJSON + `}]`},
		{"status page", "GetStatusPage", "/v1/status-pages" + id, &incidentv1.GetStatusPageResponse{
			StatusPage: fullStatusPage(),
			Components: []*incidentv1.StatusPageComponent{{Id: otherID, Name: "API", Position: 1, Status: incidentv1.PublicStatus_PUBLIC_STATUS_MAINTENANCE}},
		}, `{` + statusPageJSON + `,"components":[{"id":"` + otherID + `","name":"API","groupName":null,"position":1,"status":"maintenance"}]}`},
		{"a page's incidents", "ListStatusPageIncidents", "/v1/status-pages" + id + "/incidents",
			&incidentv1.ListStatusPageIncidentsResponse{Incidents: []*incidentv1.Incident{fullIncident()}}, `[{` + incidentJSON + `}]`},
		{"audit", "ListAuditEntries", "/v1/audit", &auditv1.ListAuditEntriesResponse{Entries: []*auditv1.AuditEntry{{
			Id: someID, ActionType: "incident.created", ResourceType: "incident", ResourceId: otherID, ActorId: tokenID, IpAddress: "192.0.2.1", CreatedAt: at(0),
		}}}, `{"items":[{"id":"` + someID + `","actionType":"incident.created","resourceType":"incident","resourceId":"` + otherID +
			`","ipAddress":"192.0.2.1","createdAt":"` + instant + `"}],"nextCursor":null}`},
	}
	h := start(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h.services.reply(c.method, c.answer)
			got := h.get(t, c.target).mustBe(t, 200)
			if diff := cmp.Diff(c.want, got.body); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMe(t *testing.T) {
	got := start(t).do(t, tokenOf(authn.IncidentsWrite), "GET", "/v1/me", "").mustBe(t, 200)
	want := fmt.Sprintf(`{"teamId":%q,"tokenId":%q,"scopes":["incidents:write"]}`, teamID, tokenID)
	if got.body != want {
		t.Errorf("got %s, want %s", got.body, want)
	}
	if got := start(t).do(t, "none", "GET", "/v1/me", "").body; got != fmt.Sprintf(`{"teamId":%q,"tokenId":%q,"scopes":[]}`, teamID, tokenID) {
		t.Errorf("without scopes: %s", got)
	}
}

func TestAnswersToPosts(t *testing.T) {
	h := start(t)
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident(), Replayed: true})
	got := h.do(t, "full", "POST", "/v1/incidents", `{"title":"t","status":"resolved","impact":"none","message":"m"}`).mustBe(t, 200)
	if got.body != `{"id":"`+someID+`","title":"Slow API","status":"resolved"}` || got.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s, Idempotent-Replayed %q", got.body, got.Header.Get("Idempotent-Replayed"))
	}
	h.services.reply("AddIncidentUpdate", &incidentv1.AddIncidentUpdateResponse{
		Update: &incidentv1.IncidentUpdate{Id: otherID, Status: incidentv1.IncidentStatus_INCIDENT_STATUS_IDENTIFIED, CreatedAt: at(0)},
	})
	got = h.do(t, "full", "POST", "/v1/incidents/"+someID+"/updates", `{"status":"identified","message":"m"}`).mustBe(t, 200)
	if got.body != `{"id":"`+otherID+`","status":"identified"}` || got.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%s, Idempotent-Replayed %q", got.body, got.Header.Get("Idempotent-Replayed"))
	}
}
