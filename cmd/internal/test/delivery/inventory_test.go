package delivery

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	auditv1 "opsgate/proto/ops/audit/v1"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// The inventory of the test. A page has a subscriber of each channel.
const inventoryFile = `teams:
  - name: Harbour
    plan: ai
    groups: [{name: Web, color: '#0a5fbf'}]
    servers: [{name: web-1, host: web-1.harbour.example, group: Web}]
    monitors: [{name: Harbour API, type: http, target: 'https://harbour.example', interval_seconds: 60, opens_incidents: true}]
    pages:
      - name: Harbour
        hostname: status.harbour.example
        visibility: public
        color: '#0a5fbf'
        components: [{name: API, monitor: Harbour API}]
        subscribers: [{email: ana@mail.example}, {webhook: '%s', allow_http: true}]
`

// A platform is opsbackend and opsgate in front of it, with an inventory, an agent and a probe, watched over the public API.
type platform struct {
	*client

	backend         *testkit.Process
	ingest          ingestv1.IngestServiceClient
	audit           auditv1.AuditServiceClient
	authorized      context.Context // of reports
	verifier        *standardwebhooks.Webhook
	server, monitor string
	page            string
}

// The whole system, each program a process of its own: an inventory is applied, an agent and a probe report, the monitor goes down and
// recovers. The public API shows all of it, subscribers get an email and a webhook of each step, and the audit log names the actors.
func TestInventoryReportsAndOutage(t *testing.T) {
	to := startReceivers(t, nil)
	p := startPlatform(t, to)
	p.expect("up", "operational", "operational", 0)
	p.reportServer()

	// The probe was offline, and reports the checks of the last minutes.
	p.probe("down", 10, 9, 8)
	p.expect("down", "outage", "outage", 1)
	p.receive(to, "incident.created", "investigating", 1)
	p.probe("up", 7, 6)
	p.expect("up", "operational", "degraded", 1) // the incident is open
	p.probe("up", 1, 0)
	p.expect("up", "operational", "operational", 0)
	p.receive(to, "incident.update_posted", "resolved", 2)
	incidents := get[[]map[string]any](p.client, "/v1/status-pages/"+p.page+"/incidents")
	if len(incidents) != 1 || incidents[0]["status"] != "resolved" || incidents[0]["title"] != "Harbour API is down" {
		t.Fatalf("incidents %v", incidents)
	}
	incident := get[map[string]any](p.client, "/v1/incidents/"+fmt.Sprint(incidents[0]["id"]))
	if updates, _ := incident["updates"].([]any); len(updates) != 2 {
		t.Errorf("updates %v", incident["updates"])
	}
	p.audited()
}

// People of the test.
const (
	administrator = "6f2b8f0e-3f5c-4d1a-9b1e-0a7c5d3e2f10"
	operatorID    = "0a7c5d3e-2f10-4d1a-9b1e-6f2b8f0e3f5c"
)

func startPlatform(t *testing.T, to *receivers) *platform {
	t.Helper()
	data, dir := t.TempDir(), t.TempDir()
	file, secret := filepath.Join(dir, "inventory.yaml"), filepath.Join(dir, "secret")
	testkit.Must(t, os.WriteFile(file, fmt.Appendf(nil, inventoryFile, to.hookURL(1)), 0o600))
	testkit.Must(t, os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600))

	p := &platform{authorized: metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer 0123456789abcdef")}
	applied := opsbackend(t, "apply", "--data-dir="+data, "-f", file, "--actor="+administrator)
	key := regexp.MustCompile(`(?m)^secret of subscriber \S+: whsec_(\S+)$`).FindStringSubmatch(applied)
	if key == nil || strings.Count(applied, "\n+ ") != 7 {
		t.Fatalf("applied:\n%s", applied)
	}
	var err error
	p.verifier, err = standardwebhooks.NewWebhook(key[1])
	testkit.Must(t, err)
	if again := opsbackend(t, "apply", "--data-dir="+data, "-f", file); again != "" {
		t.Errorf("applied again:\n%s", again)
	}
	token := opsbackend(t, "token", "create", "--data-dir="+data, "--team=Harbour",
		"--scopes="+strings.Join(authn.NewScopes(authn.AllScopes()...).Strings(), ","))

	p.backend = launch(t, "opsbackend", nil,
		append(serveArguments("127.0.0.1:0", data, to), "--ingest-listen=127.0.0.1:0", "--ingest-secret-file="+secret)...)
	serving := p.backend.MustRecord(t, "serving")
	p.ingest = ingestv1.NewIngestServiceClient(dial(t, serving["ingest"]))
	p.audit = auditv1.NewAuditServiceClient(dial(t, serving["address"]))
	p.client = startGateway(t, fmt.Sprint(serving["address"]), strings.TrimSpace(token))
	p.server, p.monitor, p.page = p.onlyID("/v1/servers"), p.onlyID("/v1/monitors"), p.onlyID("/v1/status-pages")
	return p
}

func dial(t *testing.T, address any) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(fmt.Sprint(address), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, conn.Close()) })
	return conn
}

// onlyID returns the id of the only row of a list.
func (p *platform) onlyID(target string) string {
	p.t.Helper()
	rows := get[[]struct{ ID string }](p.client, target)
	if len(rows) != 1 {
		p.t.Fatalf("%s: %v", target, rows)
	}
	return rows[0].ID
}

func minutesAgo(n int) *timestamppb.Timestamp {
	return timestamppb.New(time.Now().Add(-time.Duration(n) * time.Minute))
}

// accepted fails the test if a report or one of its items failed.
func (p *platform) accepted(refused []*ingestv1.ItemError, err error) {
	p.t.Helper()
	if err != nil || len(refused) > 0 {
		p.t.Fatalf("a report: %v, refused %v", err, refused)
	}
}

// reportServer reports metrics and a command, and looks for them.
func (p *platform) reportServer() {
	p.t.Helper()
	sample := &ingestv1.ServerMetrics{
		ServerId: p.server, At: minutesAgo(1), CpuPercent: 42.5, RamUsedMb: 512, RamTotalMb: 1024, DiskUsedGb: 10, DiskTotalGb: 40,
	}
	metrics, err := p.ingest.ReportMetrics(p.authorized, &ingestv1.ReportMetricsRequest{Items: []*ingestv1.ServerMetrics{sample}})
	p.accepted(metrics.GetErrors(), err)
	commands, err := p.ingest.RecordCommands(p.authorized, &ingestv1.RecordCommandsRequest{Items: []*ingestv1.CommandItem{
		{Item: &ingestv1.CommandItem_Command{Command: &ingestv1.ServerCommand{
			Id: "4d1a9b1e-0a7c-4d3e-8f10-6f2b8f0e3f5c", ServerId: p.server, Command: "uptime", Source: "terminal", Status: "succeeded",
			ExitCode: new(int32(0)), CreatedAt: minutesAgo(3), StartedAt: minutesAgo(3), FinishedAt: minutesAgo(2),
			Actor: &ingestv1.Actor{Id: operatorID, IpAddress: "192.0.2.8"},
		}}},
	}})
	p.accepted(commands.GetErrors(), err)
	shown := get[struct {
		Points []struct{ CPUPercent float64 }
	}](p.client, "/v1/servers/"+p.server+"/metrics?range=1h")
	if len(shown.Points) != 1 || shown.Points[0].CPUPercent != 42.5 {
		p.t.Errorf("metrics %+v", shown)
	}
	if server := get[map[string]any](p.client, "/v1/servers/"+p.server); server["lastSeenAt"] == nil || server["name"] != "web-1" {
		p.t.Errorf("server %v", server)
	}
	if list := get[struct {
		Items []struct{ Command, Status string }
	}](p.client, "/v1/servers/"+p.server+"/commands").Items; len(list) != 1 ||
		list[0].Command != "uptime" || list[0].Status != "succeeded" {
		p.t.Errorf("commands %v", list)
	}
}

// probe reports checks of some minutes ago.
func (p *platform) probe(result string, minutes ...int) {
	p.t.Helper()
	r := &ingestv1.RecordChecksRequest{}
	for _, n := range minutes {
		r.Items = append(r.Items, &ingestv1.MonitorCheck{MonitorId: p.monitor, CheckedAt: minutesAgo(n), Status: result, LatencyMs: 20})
	}
	response, err := p.ingest.RecordChecks(p.authorized, r)
	p.accepted(response.GetErrors(), err)
}

// expect checks the statuses of monitor, component and page, and how many incidents are open.
func (p *platform) expect(monitor, component, page string, open int) {
	p.t.Helper()
	if monitors := get[[]struct{ Status string }](p.client, "/v1/monitors"); monitors[0].Status != monitor {
		p.t.Errorf("monitors %v, want %s", monitors, monitor)
	}
	shown := get[struct {
		OverallStatus string
		Components    []struct{ Status string }
	}](p.client, "/v1/status-pages/"+p.page)
	if shown.OverallStatus != page || len(shown.Components) != 1 || shown.Components[0].Status != component {
		p.t.Errorf("page %+v, want %s with a component %s", shown, page, component)
	}
	incidents := get[struct{ Items []struct{ Status string } }](p.client, "/v1/incidents").Items
	unresolved := slices.DeleteFunc(incidents, func(i struct{ Status string }) bool { return i.Status == "resolved" })
	if len(unresolved) != open {
		p.t.Errorf("%d open incidents, want %d", len(unresolved), open)
	}
}

// receive waits until both subscribers have n messages, and checks the last ones.
func (p *platform) receive(to *receivers, event, status string, n int) {
	p.t.Helper()
	const title = "Harbour API is down"
	testkit.Eventually(p.t, fmt.Sprintf("%d emails and %d webhooks arrive", n, n), func() bool { return to.count() >= 2*n })
	arrivals := to.all()
	for _, a := range arrivals[2*(n-1):] {
		text := string(a.content)
		if !strings.HasPrefix(a.subscriber, "http") {
			if !strings.Contains(strings.Join(a.header["Subject"], ""), title) {
				p.t.Errorf("an email has no %q in its subject:\n%s", title, text)
			}
			continue
		}
		if err := p.verifier.Verify(a.content, http.Header(a.header)); err != nil {
			p.t.Errorf("the signature of %s: %v", text, err)
		}
		for _, want := range []string{`"` + event + `"`, title, `"` + status + `"`} {
			if !strings.Contains(text, want) {
				p.t.Errorf("a webhook has no %s: %s", want, text)
			}
		}
	}
	if n := len(arrivals); arrivals[n-1].subscriber == arrivals[n-2].subscriber {
		p.t.Errorf("two messages to %s, none to the other subscriber", arrivals[n-1].subscriber)
	}
}

// audited checks the audit log: its actions over the public API, and their actors, which only the backend shows.
func (p *platform) audited() {
	p.t.Helper()
	const service = "00000000-0000-0000-0000-000000000000"
	want := [][2]string{
		{"team.created", administrator}, {"server_group.created", administrator}, {"server.created", administrator},
		{"monitor.created", administrator}, {"status_page.created", administrator}, {"component.created", administrator},
		{"subscriber.added", administrator}, {"subscriber.added", administrator}, {"api_token.created", service},
		{"command.executed", operatorID},
		{"monitor.degraded", service}, {"component.status_changed", service},
		{"monitor.down", service}, {"component.status_changed", service}, {"incident.created", service},
		{"monitor.recovered", service}, {"component.status_changed", service}, {"incident.update_posted", service},
	}
	shown := get[struct {
		Items []struct{ ActionType, ResourceID string }
	}](p.client, "/v1/audit?limit=100").Items // newest first
	team := shown[len(shown)-1].ResourceID
	entries, err := p.audit.ListAuditEntries(p.t.Context(), &auditv1.ListAuditEntriesRequest{TeamId: team, PageSize: 100})
	testkit.Must(p.t, err)
	var got [][2]string
	for i, entry := range entries.GetEntries() {
		if entry.GetActionType() != shown[i].ActionType {
			p.t.Errorf("the API shows %s for %s", shown[i].ActionType, entry.GetActionType())
		}
		got = append(got, [2]string{entry.GetActionType(), entry.GetActorId()})
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		p.t.Errorf("the audit log has %v, want %v", got, want)
	}
}
